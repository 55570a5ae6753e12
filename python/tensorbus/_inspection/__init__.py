"""Inspection of a domain: reports of its participants, and figures as text."""
