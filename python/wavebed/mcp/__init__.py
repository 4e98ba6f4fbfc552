"""A server of the Model Context Protocol (MCP) over standard input and output: wavebed for agents.

The protocol is written here, not taken from its SDK: for five methods that would bring 28 packages, among them a web
server and a cryptography library.
"""
