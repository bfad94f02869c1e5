"""Fails if a target that a library product needs has unsafe flags: swift package dump-package | examples.py

docs/decisions/0016-products.md has the reason.
"""

import json
import sys

package = json.load(sys.stdin)
targets = {target["name"]: target for target in package["targets"]}


def needed(name, found):
    """Adds the target `name` to `found`, and all targets of this package that the target needs."""
    if name not in targets or name in found:
        return
    found.add(name)
    for dependency in targets[name]["dependencies"]:
        needed(next(iter(dependency.values()))[0], found)


failed = False
for product in package["products"]:
    if "library" in product["type"]:
        found = set()
        for name in product["targets"]:
            needed(name, found)
        unsafe = sorted(name for name in found if any("unsafeFlags" in setting["kind"] for setting in targets[name]["settings"]))
        print(f"{product['name']}: {len(found)} targets, unsafe flags in {', '.join(unsafe) or 'no target'}")
        failed = failed or bool(unsafe)
sys.exit(failed)
