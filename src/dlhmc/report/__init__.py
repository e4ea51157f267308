"""The report: what runs have found, as charts, tables and one self-contained page."""
