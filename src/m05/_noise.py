"""The warnings of torch 2.13 and torchao 0.18 that say nothing about the reader's model."""

import logging
import warnings
from types import TracebackType

__all__ = ["quiet"]

# (category, start of the message, why it says nothing to the reader)
_WARNINGS: tuple[tuple[type[Warning], str, str], ...] = (
    (UserWarning, "XNNPACKQuantizer is deprecated", "m05.pt2e chooses it, and says when"),
    (
        FutureWarning,
        r"`isinstance\(treespec, LeafSpec\)` is deprecated",
        "torch.fx itself, in every copy.deepcopy of an exported graph",
    ),
    (DeprecationWarning, "read_text is deprecated", "executorch 1.5, at import"),
    (DeprecationWarning, "open_text is deprecated", "executorch 1.5, at import"),
    (DeprecationWarning, "`torch.jit.script_method` is deprecated", "executorch 1.5, at import"),
)

# (logger, start of the message, why)
_LOG_RECORDS: tuple[tuple[str, str, str], ...] = (
    ("torchao", "Failed to load", "GPU kernels that a CPU build cannot load"),
    ("torch.utils._pytree", "%s is an Enum subclass", "torchao's own registration at import"),
)


class _ByStart(logging.Filter):
    """Drop the records that start so, and pass everything else."""

    def __init__(self, start: str) -> None:
        super().__init__()
        self.start = start

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(self.start)


class quiet:
    """Silence the known noisy warnings of torch and torchao, by name, and nothing else.

    Call it once at the top of a notebook, or use it as a context manager that puts everything
    back at its end.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     with quiet():
    ...         warnings.warn("XNNPACKQuantizer is deprecated!")
    ...         warnings.warn("something new")
    >>> [str(w.message) for w in seen]
    ['something new']

    Source: the list, with the reason of each entry, is `m05/_noise.py`.
    """

    def __init__(self) -> None:
        self._install()

    def _install(self) -> None:
        self._active = True
        self._saved = warnings.catch_warnings()
        self._saved.__enter__()
        for category, message, _why in _WARNINGS:
            warnings.filterwarnings("ignore", message=message, category=category)
        self._filters = [(logging.getLogger(n), _ByStart(start)) for n, start, _ in _LOG_RECORDS]
        for logger, by_start in self._filters:
            logger.addFilter(by_start)

    def __enter__(self) -> "quiet":
        if not self._active:  # a second `with` on one object
            self._install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._active = False
        for logger, by_start in self._filters:
            logger.removeFilter(by_start)
        self._saved.__exit__(kind, error, trace)
