// Long tables are filtered by words, and sorted by a click on a head.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) {
    const rows = [...table.querySelectorAll("tbody tr")];
    if (rows.length < 12) continue;
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = `Filter ${rows.length} rows`;
    field.setAttribute("aria-label", field.placeholder);
    field.className = "filter";
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
    table.closest(".table-wrapper, table").before(field);
    table.querySelectorAll("th").forEach((head, column) => {
      const button = document.createElement("button");
      button.textContent = head.textContent;
      button.className = "sort";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent;
        rows.sort((a, b) => (down ? -1 : 1) * text(a).localeCompare(text(b), undefined, { numeric: true }));
        rows[0].parentNode.append(...rows);
      });
    });
  }
});
