"""Literal text in the configurations of servers.

Both servers expand variables in most of their values: Caddy ``{env.HOME}``, nginx ``$host``. What a recording says
must never be one.
"""

from __future__ import annotations

__all__ = ["NGINX_DOLLAR", "caddy_literal", "nginx_literal", "nginx_word"]

NGINX_DOLLAR = '    geo $dollar {\n        default "$";\n    }'
"""Once within ``http``: nginx knows no way to write a dollar where it expands variables."""


def caddy_literal(text: str) -> str:
    """Return a value of Caddy's configuration for the literal `text`, where Caddy expands placeholders.

    A backslash before a brace keeps the brace, and is taken away; without an opening brace nothing is looked at.
    """
    return text.replace("{", "\\{").replace("}", "\\}") if "{" in text else text


def nginx_word(text: object) -> str:
    """Return a word of nginx's configuration, for a directive that takes it as it is."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def nginx_literal(text: object) -> str:
    """Return a word of nginx's configuration, for a directive that expands variables."""
    return nginx_word(text).replace("$", "${dollar}")
