"""Which slips of reading configs and files, and of comparing what was read, would the tests notice? As `tests/mutants.py`."""

from __future__ import annotations

from tests.mutants import Mutant


def _mutant(name: str, file: str, old: str, new: str, *killers: str) -> Mutant:
    return Mutant(name, f"einformer/{file}", old, new, tuple(f"tests/test_{killer}" for killer in killers))


CONFIG, DOCUMENTS, WEIGHTS = "huggingface/config.py", "huggingface/documents.py", "huggingface/weights.py"
STORED, RENAMING, DIFFERENCE = "huggingface/stored.py", "language/renaming.py", "language/difference.py"
ALIGNMENT = "language/alignment.py"

MUTANTS = (
    # ------------------------------------------------------------------------------------------------------- configs
    _mutant(
        "a config that is saved says what its authors said, and no more", CONFIG,
        "{**kept, **read, **said}", "{**kept, **said}",
        "huggingface_saved.py::test_the_base_of_dbrx_is_where_transformers_reads_it",
    ),
    _mutant(
        "a config that is saved keeps the dtype that it had", CONFIG,
        '_OF_WEIGHTS = {"dtype", "torch_dtype",', '_OF_WEIGHTS = {"torch_dtype",',
        "huggingface_saved.py::test_a_config_is_as_it_was_but_for_what_it_says_of_the_weights[dtype]",
    ),
    _mutant(
        "a fixed key has no say", CONFIG,
        "        *_refused(config, table),\n", "",
        "huggingface_keys.py::test_every_change_is_seen[llama-3-8b]",
    ),
    _mutant(
        "keys of one letter may differ", CONFIG,
        "        *_contradictions(config, table, given),\n", "",
        "huggingface_keys.py::test_every_change_is_seen[deepseek-v3]",
    ),
    _mutant(
        "an unknown key has no say", CONFIG,
        "        *_unknown(config, table),\n", "",
        "huggingface_keys.py::test_an_unknown_key_is_refused_by_name[llama-3.1-70b]",
    ),
    _mutant(
        "Mistral has as many key heads as heads", "architectures/mistral.toml",
        "num_key_value_heads = 8", "num_key_value_heads = 32",
        "defaults.py::test_an_absent_key_is_what_it_is_in_transformers[mistral]",
    ),
    _mutant(
        "the key of an inner object stands where its object does", DOCUMENTS,
        "written if written in places else str(written)", "str(written)",
        "huggingface_keys.py::test_a_broken_value_is_shown_in_its_line[llama-3.1-70b]",
    ),
    _mutant(
        "the first of two keys of one name is silent", DOCUMENTS,
        "                if key in keys:\n", "                if False:\n",
        "huggingface_keys.py::test_twice_in_one_object",
    ),
    # ------------------------------------------------------------------------------------------------------- weights
    _mutant(
        "gate and up of an expert are exchanged", "huggingface/block_sparse.toml",
        'experts.{x}.w1.weight", "f d"', 'experts.{x}.w3.weight", "f d"',
        "huggingface_files.py::test_what_transformers_writes_is_read[mixtral]",
    ),
    _mutant(
        "every expert is the first", WEIGHTS,
        "weights[path][tuple(self.at.get(letter, slice(None))", "weights[path][tuple(self.at.get(letter, slice(None)) and 0",
        "huggingface_files.py::test_what_transformers_writes_is_read[qwen3_moe]",
    ),
    _mutant(
        "files have the names of a state dict", WEIGHTS,
        "weights, lambda _: True)}", "weights, lambda _: False)}",
        "huggingface_files.py::test_transformers_reads_what_is_written[mixtral]",
    ),
    _mutant(
        "other weights are left beside", STORED,
        "    if others := sorted(", "    if False and sorted(",
        "huggingface_files.py::test_other_weights_are_not_left_beside",
    ),
    _mutant(
        "a file holds one tensor too many", STORED,
        "        if names and size > room:", "        if names and room < 0:",
        "huggingface_files.py::test_files_are_no_larger_than_asked",
    ),
    # -------------------------------------------------------------------------------------------------------- diff
    _mutant(
        "visible positions are those computed", RENAMING,
        "        if index.letter == self.time:\n", "        if False:\n",
        "diff.py::test_one_line",
    ),
    _mutant(
        "primes are what they are", RENAMING,
        "seen.setdefault(index.letter, len(seen) + (axis == self.time))", "(len(index.letter) - len(axis))",
        "diff.py::test_one_line",
    ),
    _mutant(
        "axes of other letters are other axes", RENAMING,
        "    lambda axis: show(axis.size),\n", "",
        "diff.py::test_letters_that_are_only_renamed_do_not_differ",
    ),
    _mutant(
        "a scalar over layers is a number", DIFFERENCE,
        "return axes[0] == axes[1] and all(", "return all(",
        "diff.py::test_what_is_told_makes_the_other_text[phimoe-qwen2]",
    ),
    _mutant(
        "a line that went is not told", ALIGNMENT,
        "        elif not (x and y):", "        elif not x:",
        "diff.py::test_what_is_told_makes_the_other_text[gpt2-llama]",
    ),
    _mutant(
        "lines stand side by side whatever they define", ALIGNMENT,
        "(likeness(x.key, y.key) + (x.defines == y.defines)) / 2", "likeness(x.key, y.key)",
        "diff.py::test_equations_of_one_meaning_stand_side_by_side",
    ),
)  # fmt: skip
