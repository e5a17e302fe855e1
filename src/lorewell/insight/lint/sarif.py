"""Findings in SARIF 2.1.0, the format of code scanners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from lorewell.insight.lint.codes import TABLE, LintCode
from lorewell.model.lint import Finding, Severity

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final[Mapping[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_RULES: Final = {row.code: index for index, row in enumerate(TABLE)}


def to_sarif(files: Sequence[tuple[str, Sequence[Finding]]], *, version: str) -> dict[str, object]:
    """Return a SARIF log with one run.

    Args:
        files: for each file its path, relative with `/`, and its findings.
        version: of the program.

    Source: OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0, §3.
    """
    driver = {"name": "lorewell", "version": version, "rules": [_rule(row) for row in TABLE]}
    results = [_result(path, finding) for path, findings in files for finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(row: LintCode) -> dict[str, object]:
    return {
        "id": row.code,
        "name": row.name,
        "shortDescription": {"text": row.summary},
        "defaultConfiguration": {"level": _LEVELS[row.severity]},
    }


def _result(path: str, finding: Finding) -> dict[str, object]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(path, safe="/:")}}
    return {
        "ruleId": finding.code,
        "ruleIndex": _RULES[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.text},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"fullyQualifiedName": finding.pointer, "kind": "member"}],
            }
        ],
        "properties": {
            "pointer": finding.pointer,
            "span": finding.span,
            "entry_id": finding.entry_id,
            "entries": list(finding.entries),
            "figures": dict(finding.figures),
        },
    }
