"""What does a command load before it answers, and does it read anything twice?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from einformer.architectures import texts
from einformer.errors import Source
from einformer.huggingface import families
from einformer.notes import references, shelf

# ------------------------------------------------------------------------------------------------------- read once


def test_each_table_of_a_family_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families extend the same tables, and each variant is laid over all of them."""
    read, table = Counter[str](), families._table

    def counted(path: Any) -> dict[str, Any]:
        read[path.name] += 1
        return table(path)

    monkeypatch.setattr(families, "_table", counted)
    families.family.cache_clear()
    families._whole.cache_clear()
    assert all(map(families.architectures, families.families()))
    assert {"every_family.toml", "llama.toml", "rope.toml"} <= read.keys()
    assert set(read.values()) == {1}


def test_a_text_is_checked_once_for_all_of_its_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, understood = Counter[str](), texts.understood

    def counted(source: Source) -> Any:
        checked[source.name] += 1
        return understood(source)

    monkeypatch.setattr(texts, "understood", counted)
    shelf.understood.cache_clear()
    assert any(each.emitted for each in references.references("S001"))
    assert "minimal.ein" in checked
    assert set(checked.values()) == {1}
