"""Error for what a dialect cannot express."""

from elevata.core.errors import ProductError

NOT_RENDERED = "NOT_RENDERED"


class NotRendered(ProductError):
    """Error for a type, name, policy or expression without a statement of the same meaning in a dialect.

    ``line`` and ``column`` are the place in a user's expression, from 1; 0 elsewhere.
    """

    def __init__(self, message: str, *, where: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.where = NOT_RENDERED, message, where
        self.line, self.column = line, column

    def one_line(self) -> str:
        place = f" (line {self.line}, column {self.column})" if self.line else ""
        return f"{self.where + ': ' if self.where else ''}{self.message}{place}"
