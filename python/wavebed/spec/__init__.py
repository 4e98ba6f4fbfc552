"""A trial as a value: resolved once, then written, sent, stored and run elsewhere.

These types describe the engine's input (``docs/development/laboratory-file.md``) and ``spec.json``. They hold
no text with units: times are nanoseconds, sizes bytes, rates bits per second, probabilities numbers from 0 to 1.
"""
