"""The report: one HTML file of all that a configuration's runs came to."""
