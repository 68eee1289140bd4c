"""Ask the public database of weaknesses about every installed package: what `make audit` runs.

pip-audit asks pypi.org for each package and version. One that it cannot ask about is no weakness to it, and where the
service is out of reach it says that nothing was found; here that is an error, and so is a package left out.
"""

from __future__ import annotations

import json
import subprocess
import sys

SERVICE = "https://pypi.org/pypi/NAME/VERSION/json"


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"The audit could not be made, it needs {SERVICE}: {last}", file=sys.stderr)
        return 2
    weak = [package for package in packages if package.get("vulns")]
    for package in weak:
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}")
    unknown = [p["name"] for p in packages if "skip_reason" in p and "editable" not in p["skip_reason"]]
    audited = sum("vulns" in package for package in packages)
    print(f"{audited} packages audited, {len(weak)} of them with known weaknesses.")
    if unknown:
        print(
            f"{len(unknown)} could not be audited, because {SERVICE} could not be reached or does not know them: "
            f"{', '.join(unknown)}",
            file=sys.stderr,
        )
    return 1 if weak else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
