"""A map learned from walks: the rates at each place, from which new walks are drawn."""

from wavebed.channel.placemap.draw import draw_walks, pattern_of, to_pattern
from wavebed.channel.placemap.files import decode_map, encode_map, is_map, load_map
from wavebed.channel.placemap.model import PlaceMap

__all__ = ["PlaceMap", "decode_map", "draw_walks", "encode_map", "is_map", "load_map", "pattern_of", "to_pattern"]
