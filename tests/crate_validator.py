"""Validate a crate: python crate_validator.py FOLDER; prints what is wrong, and ends with 1 if so.

Runs in an environment of its own (`make .venv-crate/.installed`), as the validator wants an older
`rich` than the linters. It needs no network: RO-Crate's context comes from the package `rocrate`,
whose version 0.13 has that of RO-Crate 1.1.
"""

import io
import sys
from email.message import Message
from pathlib import Path
from urllib.response import addinfourl

import rdflib._networking
import requests
import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester

URL = "https://w3id.org/ro/crate/1.1/context"
CONTEXT = (Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()
PROFILES = ("ro-crate-1.1", "workflow-ro-crate-1.0", "workflow-run-crate-0.5")
KIND = "application/ld+json"


def opened(request, *_, **__):
    """Stand in for `urlopen`, for rdflib."""
    assert request.full_url == URL, request.full_url
    headers = Message()
    headers["Content-Type"] = KIND
    return addinfourl(io.BytesIO(CONTEXT), headers, URL, 200)


def got(self, url, **_):
    """Stand in for a request of the validator."""
    assert url == URL, url
    response = requests.Response()
    response.status_code, response._content, response.url = 200, CONTEXT, url
    response.headers["Content-Type"] = KIND
    return response


def main(folder: str) -> int:
    rdflib._networking.urlopen = opened
    HttpRequester.get = got
    wrong = 0
    for profile in PROFILES:
        settings = services.ValidationSettings(
            rocrate_uri=folder,
            profile_identifier=profile,
            requirement_severity=models.Severity.RECOMMENDED,
        )
        found = services.validate(settings).get_issues()
        errors = [issue for issue in found if issue.severity == models.Severity.REQUIRED]
        wrong += len(errors)
        print(f"{profile}: {len(errors)} errors, {len(found) - len(errors)} recommendations")
        for issue in found:
            print(f"  {issue.severity.name} {issue.check.identifier}: {issue.message}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
