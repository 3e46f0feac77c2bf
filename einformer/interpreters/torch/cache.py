"""The class `Cache` keeps tensors between two calls of a module; its text stands in the emitted file too."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor


class Cache:
    """The tensors that are kept of the positions so far, by path, with their rows of earlier positions.

    `kept` says of each how many positions beside the current one are read, None for all; what is `shared` is kept under another
    path. Some rows of a batch may start with `padding`, so many positions; these are numbered as if they came last, where
    nothing that is causal looks.
    """

    def __init__(
        self,
        kept: dict[str, int | None],
        padding: Tensor | None = None,
        size: int = 0,
        batch: int = 1,
        shared: dict[str, str] | None = None,
    ) -> None:
        self.kept, self.padding, self.size, self.batch, self.shared = kept, padding, size, batch, shared or {}
        self.whole: dict[str, Tensor] = {}  # what is shared, as this call has it
        self.longest = 0 if padding is None else int(padding.max())
        self.rows: dict[str, Tensor] = {}
        self.axes: dict[str, int] = {}
        self.numbers: dict[int, Tensor] = {}
        self.masks: dict[int, Tensor] = {}
        self.past = self.fresh = self.total = 0
        self.shape: tuple[int, ...] | None = None  # of the batch, once there was an input
        self.precision = ""  # in which that was computed, and where
        self.source: tuple[Tensor, ...] = ()  # the inputs without positions
        self.first = self.sees_all = False
        self.asked: int | None = None  # of how many last positions the outputs are asked for; None: all

    def begin(self, fresh: int, device: torch.device) -> None:
        """A call with so many new positions begins."""
        self.past, self.fresh, self.total, self.device = self.total, fresh, self.total + fresh, device
        self.first = self.padding is None and self.past == 0
        self.sees_all = self.padding is None and fresh == 1
        self.numbers.clear()
        self.masks.clear()

    def number_last(self, count: int) -> Tensor:
        if count not in self.numbers:
            slots = torch.arange(self.total - count, self.total, device=self.device)
            own = slots if self.padding is None else (slots - self.padding[:, None]) % self.total
            self.numbers[count] = own.view((1,) * self.batch + (-1,)) if self.padding is None else own
        return self.numbers[count]

    def number_new(self) -> Tensor:
        return self.number_last(self.fresh)

    # A position that is not among the last that are seen lies at the nearest of them.
    def find_places(self, numbers: Tensor, seen: int) -> Tensor:
        rows = 0 if self.padding is None else self.padding.view(-1, *[1] * (numbers.dim() - 1))
        return (numbers + rows - self.total + seen).clamp(0, seen - 1)

    def make_mask(self, heads: int) -> Tensor | None:
        """True where a new position sees a visible one; None where it sees all, or `is_causal` says so, at the `first`."""
        if self.first or self.sees_all:
            return None
        if heads not in self.masks:
            mask = self.number_last(self.count_visible(""))[..., None, :] <= self.number_new()[..., None]
            rows = () if self.padding is None else (-1, *[1] * heads)
            self.masks[heads] = mask.view(*rows, *mask.shape[-2:])
        return self.masks[heads]

    # New positions count too, and all where nothing is kept.
    def count_visible(self, path: str) -> int:
        back = self.kept.get(path)
        return self.total if back is None else min(self.past, back) + self.fresh

    def narrow(self, x: Tensor, axis: int, seen: int) -> Tensor:
        return x.narrow(axis, x.shape[axis] - seen, seen)

    def select_asked(self, x: Tensor, axis: int) -> Tensor:
        count = x.shape[axis]
        return x if self.asked is None or self.asked >= count else x.narrow(axis, count - self.asked, self.asked)

    def keep(self, path: str, new: Tensor, axis: int, row: int = 0, seen: int | None = None) -> Tensor:
        """All positions of a tensor that are seen: of a window the last ones in their order, else those so far in one store.

        `axis` is that of positions, `row` that of the rows of a batch, `seen` how many are seen where this is not kept.
        """
        if path not in self.kept:
            return self.place_new(new, axis, seen or self.count_visible(path))
        if path in self.shared:
            return self.whole[self.shared[path]]
        return self.share(path, self.append(path, self.zero_padding(new, axis, row), axis))

    def place_new(self, new: Tensor, axis: int, count: int) -> Tensor:
        return self.pad(new, axis, count)

    # All other positions are zero in this turn of a loop, or are not needed.
    def pad(self, new: Tensor, axis: int, count: int) -> Tensor:
        others = new.new_zeros((*new.shape[:axis], count - new.shape[axis], *new.shape[axis + 1 :]))
        return torch.cat([others, new], axis)

    # Others with the same tensor get the entry in this call.
    def share(self, path: str, whole: Tensor) -> Tensor:
        if self.shared:
            self.whole[path] = whole
        return whole

    def append(self, path: str, new: Tensor, axis: int) -> Tensor:
        back, self.axes[path] = self.kept[path], axis
        if back is None:
            return self.store(path, new, axis)
        old = self.rows.get(path, new.narrow(axis, 0, 0))
        seen = min(self.past, back)
        whole = torch.cat([old.narrow(axis, old.shape[axis] - seen, seen), new], axis)
        held = min(whole.shape[axis], back + 1)
        last = whole.narrow(axis, whole.shape[axis] - held, held)
        self.rows[path] = last if held == whole.shape[axis] else last.clone()
        return whole

    # The new positions are written behind the old ones; the store doubles where it is full.
    def store(self, path: str, new: Tensor, axis: int) -> Tensor:
        store = self.rows.get(path)
        if store is None or store.shape[axis] < self.total:
            length = max(self.size, self.total if store is None else 2 * self.total)
            shape = (*new.shape[:axis], length, *new.shape[axis + 1 :])
            larger = new.new_zeros(shape)
            if store is not None:
                larger.narrow(axis, 0, self.past).copy_(store.narrow(axis, 0, self.past))
            self.rows[path] = store = larger
        store.narrow(axis, self.past, self.fresh).copy_(new)
        return store.narrow(axis, 0, self.total)

    # Returns the last positions that are read, zero before the start of time, and the new ones.
    def keep_earlier(self, path: str, new: Tensor, axis: int, row: int = 0) -> Tensor:
        if path not in self.kept:
            return self.pad(new, axis, self.fresh + max(back or 0 for back in self.kept.values()))
        if path in self.shared:
            return self.whole[self.shared[path]]
        return self.share(path, self.append_earlier(path, self.zero_padding(new, axis, row), axis))

    # The last of these positions, old and new, are kept again.
    def append_earlier(self, path: str, new: Tensor, axis: int) -> Tensor:
        back = self.kept[path] or 0
        old = self.rows.get(path)
        if old is None:
            old = new.new_zeros((*new.shape[:axis], back, *new.shape[axis + 1 :]))
        whole = torch.cat([old, new], axis)
        self.rows[path] = whole.narrow(axis, whole.shape[axis] - back, back).clone()
        return whole

    def list_steps(self, path: str, zeros: list[Tensor], axis: int) -> list[Tensor]:
        rows = self.rows.get(path)
        if rows is None:
            return zeros
        held = rows.narrow(axis, 0, min(rows.shape[axis], self.past)) if self.kept[path] is None else rows
        return [*zeros, *held.unbind(axis)][-len(zeros) :]

    def cumsum(self, path: str, x: Tensor, axis: int, row: int = 0) -> Tensor:
        total = torch.cumsum(self.zero_padding(x, axis, row), axis)
        return self.keep_last(path, total + self.rows[path] if path in self.rows else total, axis)

    def cumprod(self, path: str, x: Tensor, axis: int, row: int = 0) -> Tensor:
        total = torch.cumprod(self.zero_padding(x, axis, row, 1), axis)
        return self.keep_last(path, total * self.rows[path] if path in self.rows else total, axis)

    def keep_last(self, path: str, total: Tensor, axis: int) -> Tensor:
        self.rows[path] = total.narrow(axis, total.shape[axis] - 1, 1).clone()
        return total

    # Padding among the new positions becomes zero, or the neutral factor of a product.
    def zero_padding(self, x: Tensor, axis: int, row: int, padding: int = 0) -> Tensor:
        if self.padding is None or self.past >= self.longest:
            return x
        slots = torch.arange(self.past, self.past + x.shape[axis], device=x.device)
        return torch.where(slots.view(-1, *[1] * (x.dim() - axis - 1)) >= self.align_padding(x, row), x, padding)

    def zero_step(self, x: Tensor, step: int, row: int = 0) -> Tensor:
        if self.padding is None or self.past + step >= self.longest:
            return x
        return torch.where(self.past + step >= self.align_padding(x, row), x, 0)

    # Returns the padding of each row, lined up with a tensor that has its rows at this axis.
    def align_padding(self, x: Tensor, row: int) -> Tensor:
        assert self.padding is not None
        return self.padding.view(-1, *[1] * (x.dim() - row - 1))

    @property
    def bytes(self) -> int:
        """The bytes that are allocated."""
        return sum(rows.numel() * rows.element_size() for rows in self.rows.values())


TEXT = inspect.getsource(Cache)


class StaticCache(Cache):
    """The same after some positions, for one more at a time: every tensor stays where it is and as large as it is.

    So a step can be compiled once. The positions of a window lie in a ring; places not written yet are numbered as if it came
    later. `total` is the caller's to count.
    """

    def __init__(self, cache: Cache, size: int, device: torch.device) -> None:
        super().__init__(cache.kept, cache.padding, size, cache.batch, cache.shared)
        self.axes, self.shape, self.precision, self.device = cache.axes, cache.shape, cache.precision, device
        self.source = cache.source
        self.total, self.fresh, self.newest = cache.total, 1, torch.tensor(cache.total - 1, device=device)
        for path, rows in cache.rows.items():
            self.rows[path] = self.place_rows(path, rows, cache.axes[path], cache.total) if path in cache.axes else rows.clone()
        self.lengths = {self.rows[path].shape[axis] for path, axis in self.axes.items()}
        self.place: dict[int, Tensor] = {}

    # Rows lie in a ring, or from the start.
    def place_rows(self, path: str, rows: Tensor, axis: int, total: int) -> Tensor:
        back = self.kept[path]
        length = self.count_visible(path)
        store = rows.new_zeros((*rows.shape[:axis], length, *rows.shape[axis + 1 :]))
        held = total if back is None else min(total, rows.shape[axis], length)
        last = rows.narrow(axis, (total if back is None else rows.shape[axis]) - held, held)
        slots = torch.arange(total - held, total, device=rows.device) % length
        return store.index_copy(axis, slots, last)

    # The next position has a place in rings of each length.
    def begin(self, fresh: int, device: torch.device) -> None:
        self.newest.add_(1)
        self.place = {length: (self.newest % length)[None] for length in self.lengths}
        self.masks = {}

    def number_last(self, count: int) -> Tensor:
        slots = self.find_slots(count)
        own = slots.view((1,) * self.batch + (-1,)) if self.padding is None else slots - self.padding[:, None]
        return own % self.size

    def find_places(self, numbers: Tensor, seen: int) -> Tensor:
        rows = 0 if self.padding is None else self.padding.view(-1, *[1] * (numbers.dim() - 1))
        return (numbers + rows).clamp(min=0) % seen

    # Returns the position at each place of a ring, below zero where there was none yet.
    def find_slots(self, count: int) -> Tensor:
        return self.newest - (self.newest - torch.arange(count, device=self.device)) % count

    def count_visible(self, path: str) -> int:
        back = self.kept.get(path)
        return self.size if back is None else min(back + 1, self.size)

    # The tensor is over a larger ring, and the result over a smaller.
    def narrow(self, x: Tensor, axis: int, seen: int) -> Tensor:
        if x.shape[axis] == seen:
            return x
        return x.index_select(axis, self.find_slots(seen) % x.shape[axis])

    def place_new(self, new: Tensor, axis: int, count: int) -> Tensor:
        others = new.new_zeros((*new.shape[:axis], count, *new.shape[axis + 1 :]))
        return others.index_copy(axis, (self.newest % count)[None], new)

    # The new position overwrites the oldest.
    def append(self, path: str, new: Tensor, axis: int) -> Tensor:
        store = self.rows[path]
        return store.index_copy_(axis, self.place[store.shape[axis]], new)

    def append_earlier(self, path: str, new: Tensor, axis: int) -> Tensor:
        store = self.rows[path]
        whole = torch.cat([store, new], axis)
        store.copy_(whole.narrow(axis, 1, store.shape[axis]))
        return whole

    def list_steps(self, path: str, zeros: list[Tensor], axis: int) -> list[Tensor]:
        store = self.rows[path]
        if path not in self.axes:  # read at earlier positions only: they lie in their order
            return list(store.unbind(axis))[-len(zeros) :]
        before = self.newest - torch.arange(len(zeros), 0, -1, device=store.device)
        earlier = store.index_select(axis, before % store.shape[axis]).unbind(axis)
        return [torch.where(position >= 0, rows, zero) for position, rows, zero in zip(before, earlier, zeros, strict=True)]

    def keep_last(self, path: str, total: Tensor, axis: int) -> Tensor:
        self.rows[path].copy_(total)
        return total

    # Padding is over.
    def zero_padding(self, x: Tensor, axis: int, row: int, padding: int = 0) -> Tensor:
        return x

    def zero_step(self, x: Tensor, step: int, row: int = 0) -> Tensor:
        return x
