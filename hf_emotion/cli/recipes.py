# SPDX-License-Identifier: Apache-2.0
"""`hf-emotion recipes`."""

from .printing import print_table


def recipes() -> None:
    """List the recipes of the package: paper, table row, base model, published score."""
    import yaml

    from ..recipes import packaged_recipes, recipe_name

    rows = []
    for path in packaged_recipes():
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        published = ", ".join(f"{name} {value}" for name, value in values.get("published", {}).items())
        rows.append(
            [
                recipe_name(path),
                values.get("description", ""),
                values.get("paper") or "-",
                values.get("table_row") or "-",
                values.get("base_model", ""),
                published or "-",
            ]
        )
    print_table(["recipe", "what it trains", "paper", "table row", "base model", "published"], rows)
