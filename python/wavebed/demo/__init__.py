"""The demonstration: the path of the study kau-e5g under a download, a cubic flow and a bbr flow."""
