"""The report of a campaign."""

from wavebed.campaign.report.build import write_campaign_report

__all__ = ["write_campaign_report"]
