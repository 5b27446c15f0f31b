"""The one exception of kiln."""


class Error(Exception):
    """A failure of kiln; the text says what, where and what to do.

    `code`: bad_config, bad_input, environment (a compiler, driver or device is missing), compile, device or internal.
    `violations`: of a refused config one dict for each broken rule: pointer, value, rule, suggestion.
    """

    def __init__(self, code: str, text: str, violations=()):
        super().__init__(text)
        self.code = code
        self.violations = list(violations)
