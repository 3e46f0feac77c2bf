// Long tables are filtered by words and by choice, and sorted by their heads.
const CHOSEN = ["verdict", "state", "kind", "source"]; // heads of columns with few values

function addFilter(table) {
  const heads = [...table.querySelectorAll("th")], names = heads.map((head) => head.textContent);
  const rows = [...table.querySelectorAll("tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  for (const { row } of rows) names.forEach((name, column) => { row.cells[column].dataset.head = name; });
  const read = (row, column) => row.cells[column].textContent;
  const field = document.createElement("input"), shown = document.createElement("output"), bar = document.createElement("div");
  field.type = "search";
  field.placeholder = "Words";
  field.setAttribute("aria-label", "Words of a row");
  const choices = names.flatMap((name, column) => {
    if (!CHOSEN.includes(name)) return [];
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", name);
    const values = [...new Set(rows.map(({ row }) => read(row, column)))].sort();
    choice.append(new Option(`every ${name}`, ""), ...values.map((value) => new Option(value, value)));
    return [{ choice, column }];
  });
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const fits = ({ choice, column }, row) => !choice.value || read(row, column) === choice.value;
    for (const { row, text } of rows) row.hidden = !(words.every((word) => text.includes(word)) && choices.every((each) => fits(each, row)));
    shown.textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} rows`;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = names[column];
    button.className = "sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => (down ? -1 : 1) * read(a.row, column).localeCompare(read(b.row, column), undefined, { numeric: true }));
      table.tBodies[0].append(...rows.map(({ row }) => row));
    });
  });
  bar.className = "filter";
  bar.append(field, ...choices.map(({ choice }) => choice), shown);
  bar.addEventListener("input", filter);
  filter();
  table.closest(".table-wrapper, table").before(bar);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) if (table.querySelectorAll("tbody tr").length >= 12) addFilter(table);
});
