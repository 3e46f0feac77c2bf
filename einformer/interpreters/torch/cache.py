"""The class `Cache` keeps tensors between two calls of a module; its text stands in the emitted file too."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor


class Cache:
    """The tensors that are kept of the positions so far, by path, with their rows of earlier positions.

    `kept` says of each how many positions beside the current one are read, None for all; what is `shared` is kept under another
    path. Some rows of a batch may start
    with `padding`, so many positions; these are numbered as if they came last, where nothing that is causal looks.
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
        """The numbers of the last positions, each row's own."""
        if count not in self.numbers:
            slots = torch.arange(self.total - count, self.total, device=self.device)
            own = slots if self.padding is None else (slots - self.padding[:, None]) % self.total
            self.numbers[count] = own.view((1,) * self.batch + (-1,)) if self.padding is None else own
        return self.numbers[count]

    def number_new(self) -> Tensor:
        """The numbers of the positions that are computed."""
        return self.number_last(self.fresh)

    def find_places(self, numbers: Tensor, seen: int) -> Tensor:
        """Where positions lie among the last that are seen; one that is not there lies at the nearest."""
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

    def count_visible(self, path: str) -> int:
        """How many positions of a tensor are seen, the new ones too; all, where nothing is kept."""
        back = self.kept.get(path)
        return self.total if back is None else min(self.past, back) + self.fresh

    def narrow(self, x: Tensor, axis: int, seen: int) -> Tensor:
        """A tensor over more positions than are seen here, cut to these."""
        return x.narrow(axis, x.shape[axis] - seen, seen)

    def select_asked(self, x: Tensor, axis: int) -> Tensor:
        """The positions whose outputs are asked for."""
        count = x.shape[axis]
        return x if self.asked is None or self.asked >= count else x.narrow(axis, count - self.asked, self.asked)

    def keep(self, path: str, new: Tensor, axis: int, row: int = 0) -> Tensor:
        """All positions of a tensor that are seen: of a window the last ones in their order, else those so far in one store.

        `axis` is that of positions, `row` that of the rows of a batch.
        """
        if path not in self.kept:
            return self.pad(new, axis, self.count_visible(path))
        if path in self.shared:
            return self.whole[self.shared[path]]
        return self.share(path, self.append(path, self.zero_padding(new, axis, row), axis))

    def pad(self, new: Tensor, axis: int, count: int) -> Tensor:
        """So many positions, the new ones last: in this turn of a loop all others are zero, or are not needed."""
        others = new.new_zeros((*new.shape[:axis], count - new.shape[axis], *new.shape[axis + 1 :]))
        return torch.cat([others, new], axis)

    def share(self, path: str, whole: Tensor) -> Tensor:
        """The entry that others with the same tensor get in this call, too."""
        if self.shared:
            self.whole[path] = whole
        return whole

    def append(self, path: str, new: Tensor, axis: int) -> Tensor:
        """The new positions behind those that are kept."""
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

    def store(self, path: str, new: Tensor, axis: int) -> Tensor:
        """The new positions written behind the old ones; the store doubles where it is full."""
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

    def keep_earlier(self, path: str, new: Tensor, axis: int, row: int = 0) -> Tensor:
        """The last positions that are read, zero before the start of time, and the new ones."""
        if path not in self.kept:
            return self.pad(new, axis, self.fresh + max(back or 0 for back in self.kept.values()))
        if path in self.shared:
            return self.whole[self.shared[path]]
        return self.share(path, self.append_earlier(path, self.zero_padding(new, axis, row), axis))

    def append_earlier(self, path: str, new: Tensor, axis: int) -> Tensor:
        """The last positions and the new ones, of which again the last are kept."""
        back = self.kept[path] or 0
        old = self.rows.get(path)
        if old is None:
            old = new.new_zeros((*new.shape[:axis], back, *new.shape[axis + 1 :]))
        whole = torch.cat([old, new], axis)
        self.rows[path] = whole.narrow(axis, whole.shape[axis] - back, back).clone()
        return whole

    def list_steps(self, path: str, zeros: list[Tensor], axis: int) -> list[Tensor]:
        """The steps of a recurrence before the first new one."""
        rows = self.rows.get(path)
        if rows is None:
            return zeros
        held = rows.narrow(axis, 0, min(rows.shape[axis], self.past)) if self.kept[path] is None else rows
        return [*zeros, *held.unbind(axis)][-len(zeros) :]

    def cumsum(self, path: str, x: Tensor, axis: int, row: int = 0) -> Tensor:
        """A running sum that goes on from the last."""
        total = torch.cumsum(self.zero_padding(x, axis, row), axis)
        return self.keep_last(path, total + self.rows[path] if path in self.rows else total, axis)

    def cumprod(self, path: str, x: Tensor, axis: int, row: int = 0) -> Tensor:
        """A running product that goes on from the last."""
        total = torch.cumprod(self.zero_padding(x, axis, row, 1), axis)
        return self.keep_last(path, total * self.rows[path] if path in self.rows else total, axis)

    def keep_last(self, path: str, total: Tensor, axis: int) -> Tensor:
        """A running sum or product, of which the last is kept."""
        self.rows[path] = total.narrow(axis, total.shape[axis] - 1, 1).clone()
        return total

    def zero_padding(self, x: Tensor, axis: int, row: int, padding: int = 0) -> Tensor:
        """Zero, or the neutral factor of a product, where a new position is padding."""
        if self.padding is None or self.past >= self.longest:
            return x
        slots = torch.arange(self.past, self.past + x.shape[axis], device=x.device)
        return torch.where(slots.view(-1, *[1] * (x.dim() - axis - 1)) >= self.align_padding(x, row), x, padding)

    def zero_step(self, x: Tensor, step: int, row: int = 0) -> Tensor:
        """Zero where one new position is padding."""
        if self.padding is None or self.past + step >= self.longest:
            return x
        return torch.where(self.past + step >= self.align_padding(x, row), x, 0)

    def align_padding(self, x: Tensor, row: int) -> Tensor:
        """How many positions of each row are padding, lined up with a tensor that has its rows at this axis."""
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

    def place_rows(self, path: str, rows: Tensor, axis: int, total: int) -> Tensor:
        """The rows in their places: in a ring, or from the start."""
        back = self.kept[path]
        length = self.count_visible(path)
        store = rows.new_zeros((*rows.shape[:axis], length, *rows.shape[axis + 1 :]))
        held = total if back is None else min(total, rows.shape[axis], length)
        last = rows.narrow(axis, (total if back is None else rows.shape[axis]) - held, held)
        slots = torch.arange(total - held, total, device=rows.device) % length
        return store.index_copy(axis, slots, last)

    def begin(self, fresh: int, device: torch.device) -> None:
        """The next position, and its place in rings of each length."""
        self.newest.add_(1)
        self.place = {length: (self.newest % length)[None] for length in self.lengths}
        self.masks = {}

    def number_last(self, count: int) -> Tensor:
        """The numbers of the positions in a ring of this size."""
        slots = self.find_slots(count)
        own = slots.view((1,) * self.batch + (-1,)) if self.padding is None else slots - self.padding[:, None]
        return own % self.size

    def find_places(self, numbers: Tensor, seen: int) -> Tensor:
        """Where positions lie in a ring."""
        rows = 0 if self.padding is None else self.padding.view(-1, *[1] * (numbers.dim() - 1))
        return (numbers + rows).clamp(min=0) % seen

    def find_slots(self, count: int) -> Tensor:
        """The position that lies at each place of a ring, below zero where there was none yet."""
        return self.newest - (self.newest - torch.arange(count, device=self.device)) % count

    def count_visible(self, path: str) -> int:
        """All places."""
        back = self.kept.get(path)
        return self.size if back is None else min(back + 1, self.size)

    def narrow(self, x: Tensor, axis: int, seen: int) -> Tensor:
        """A tensor over a larger ring, at the positions of a smaller."""
        if x.shape[axis] == seen:
            return x
        return x.index_select(axis, self.find_slots(seen) % x.shape[axis])

    def append(self, path: str, new: Tensor, axis: int) -> Tensor:
        """All places, the oldest overwritten by the new position."""
        store = self.rows[path]
        return store.index_copy_(axis, self.place[store.shape[axis]], new)

    def append_earlier(self, path: str, new: Tensor, axis: int) -> Tensor:
        """The last positions that are read, and the new one."""
        store = self.rows[path]
        whole = torch.cat([store, new], axis)
        store.copy_(whole.narrow(axis, 1, store.shape[axis]))
        return whole

    def list_steps(self, path: str, zeros: list[Tensor], axis: int) -> list[Tensor]:
        """The steps of a recurrence before the new one."""
        store = self.rows[path]
        if path not in self.axes:  # read at earlier positions only: they lie in their order
            return list(store.unbind(axis))[-len(zeros) :]
        before = self.newest - torch.arange(len(zeros), 0, -1, device=store.device)
        earlier = store.index_select(axis, before % store.shape[axis]).unbind(axis)
        return [torch.where(position >= 0, rows, zero) for position, rows, zero in zip(before, earlier, zeros, strict=True)]

    def keep_last(self, path: str, total: Tensor, axis: int) -> Tensor:
        """A running sum or product, which is kept where the last one was."""
        self.rows[path].copy_(total)
        return total

    def zero_padding(self, x: Tensor, axis: int, row: int, padding: int = 0) -> Tensor:
        """Padding is over."""
        return x

    def zero_step(self, x: Tensor, step: int, row: int = 0) -> Tensor:
        """Padding is over."""
        return x
