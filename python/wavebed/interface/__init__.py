"""The Python interface: ``wavebed.run``, ``wavebed.compare``, ``wavebed.load``, and the results that they return."""
