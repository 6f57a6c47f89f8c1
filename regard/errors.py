"""What a user can cause, one class per exit code of the command line.

Every message says what is wrong, where, what is allowed and how to mend it.
"""


class RegardError(Exception):
    """Something a user can cause and mend; the command line prints it without a traceback."""

    exit_code = 1


class UsageError(RegardError):
    """A call that makes no sense: an unknown option, a missing argument, a folder that is in the way."""

    exit_code = 2


class RecipeError(RegardError):
    """A recipe that cannot be read or that asks for something that cannot work."""

    exit_code = 3


class DataError(RegardError):
    """Files or lines that cannot be read as examples; carries file and line in its text."""

    exit_code = 4


class ModelError(RegardError):
    """A run folder that is missing, damaged or refused."""

    exit_code = 5


class DivergedError(RegardError):
    """Training produced numbers that are not finite, or otherwise cannot go on."""

    exit_code = 6


class ResourceError(RegardError):
    """No space on the disk, or no memory."""

    exit_code = 7


class BusyError(RegardError):
    """Another process holds what is needed."""

    exit_code = 8


class LostError(RegardError):
    """Another process of the same training has ended or cannot be reached."""

    exit_code = 9


def out_of_memory(error: BaseException) -> bool:
    """Whether there was no memory; on a CPU torch says so in a RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(each in str(error) for each in words)


def out_of_bounds(error: BaseException) -> bool:
    """Whether torch was asked for a row that a table does not have; some operations say so in a RuntimeError."""
    words = ("index out of range", "out of bounds")
    return isinstance(error, IndexError | RuntimeError) and any(each in str(error) for each in words)
