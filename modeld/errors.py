"""The one exception a user sees: a single line with what, which value and what to do."""


class ModeldError(Exception):
    """A failure a user can cause or cure.

    The message is one line naming the thing, the value found and the remedy. Command lines print
    it after the program's name and exit with `exit_code`; nothing else is shown.
    """

    exit_code = 1


class ArtifactRefusedError(ModeldError):
    """An artifact that must not run; `reason` is a member of `modeld.verdict.Reason`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
