"""Web sites: built from a specification, or imported from a recording or a saved page."""

from __future__ import annotations

from wavebed.workload.site.load import load_site, shipped_sites
from wavebed.workload.site.model import BuiltSite, Site, SiteObject, SiteOrigin

__all__ = ["BuiltSite", "Site", "SiteObject", "SiteOrigin", "load_site", "shipped_sites"]
