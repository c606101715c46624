# SPDX-License-Identifier: Apache-2.0
"""What hf_emotion takes from other libraries: all are declared, and what they promise nobody is listed here."""

import ast
import importlib
import inspect
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pkgutil import resolve_name

import pytest
from toolkit_helpers import ROOT


FILES = {path: f"hf_emotion.{path.relative_to(ROOT).as_posix()}" for path in sorted((ROOT / "modeling").glob("*.py"))}
FILES |= {path: path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "hf_emotion").rglob("*.py"))}
MODULES = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path, name in FILES.items()}
NODES = {name: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for name, path in MODULES.items()}


def test_every_import_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed, *extras = project["dependencies"], *project["optional-dependencies"].values()

    def plain(name: str) -> str:
        return re.sub("[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower()

    found = set()
    for node in (node for nodes in NODES.values() for node in nodes):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
    found -= {*sys.stdlib_module_names, "hf_emotion"}
    known = packages_distributions()
    by_package = {name: {plain(one) for one in known.get(name, [name])} for name in found}
    declared = {plain(line) for lines in (needed, *extras) for line in lines}
    assert {name for name, packages in by_package.items() if not packages & declared} == set(), "pyproject.toml lacks"
    used = set().union(*by_package.values())
    assert {plain(line) for line in needed} <= used, "declared, and never imported"


# A newer version may rename these without a word. Where it does, mend what uses the name.
PRIVATE = {
    "evaluate:Metric": "_compute _info",
    "torch:ops.aten": "_cdist_forward",
    "transformers:GenerationConfig": "_from_model_config",
    "transformers:GenerationMixin": "_get_candidate_generator",
    "transformers:Pipeline": "_forward _sanitize_parameters",
    "transformers:PreTrainedConfig": "_attn_implementation _commit_hash _name_or_path",
    "transformers:PreTrainedModel": "_can_compile_fullgraph _can_record_outputs _from_config _init_weights _input_embed_layer "
    "_is_hf_initialized _no_split_modules _set_gradient_checkpointing _skip_keys_device_placement _supports_attention_backend "
    "_supports_flash_attn _supports_flex_attn _supports_sdpa _tied_weights_keys",
    "transformers:Trainer": "_get_eval_sampler _get_num_items_in_batch _get_train_sampler _globalstep_last_logged _load_from_checkpoint "
    "_tr_loss _train_batch_size",
    "transformers.integrations:WandbCallback": "_wandb",
    "transformers.utils.hub:cached_files": "_raise_exceptions_for_missing_entries",
    # No underscore, and no promise: the server's inner side.
    "uvicorn.protocols.http.h11_impl:H11Protocol": "conn connection_made connections cycle on_response_complete send_400_response",
}
OF_NAMED_TUPLES = {"_asdict", "_fields", "_replace"}  # documented


def is_private(name: str) -> bool:
    return re.fullmatch(r"_[a-z]\w*", name) is not None and name not in OF_NAMED_TUPLES


@pytest.mark.parametrize("owner", PRIVATE)
def test_private_parts_still_exist(owner):
    one = resolve_name(owner)
    text = inspect.getsource(inspect.unwrap(one)) if inspect.isclass(one) or inspect.isroutine(one) else ""
    names = PRIVATE[owner].split()
    assert [name for name in names if not hasattr(one, name) and not re.search(rf"\b{name}\b", text)] == []


def test_private_parts_are_listed():
    """Names with an underscore that nothing here defines, and those that a class here has over its base from elsewhere."""
    used, own, in_classes = set(), set(), []
    for module, nodes in NODES.items():
        for node in nodes:
            match node:
                case ast.Attribute(ast.Name("self"), name, ast.Store()):
                    own.add(name)
                case ast.Attribute(_, name) | ast.keyword(str(name)):
                    used.add(name)
                case ast.Call(ast.Name("getattr" | "hasattr" | "setattr"), [_, ast.Constant(str(name)), *_]):
                    used.add(name)
                case ast.ImportFrom(str(name), names):
                    used |= {part for one in (name, *(alias.name for alias in names)) for part in one.split(".")}
                case ast.Import(names):
                    used |= {part for alias in names for part in alias.name.split(".")}
                case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.arg(name) | ast.Name(name, ast.Store()):
                    own.add(name)
                case ast.ClassDef(name, body=body):
                    own.add(name)
                    named = [inner for part in body for inner in (part, *getattr(part, "targets", ()))]
                    names = {getattr(inner, "name", getattr(inner, "id", "")) for inner in named}
                    in_classes += [(module, name, inner) for inner in names if is_private(inner)]
    foreign = {name for name in used - own if is_private(name)}
    for module, name, inner in in_classes:
        bases = getattr(importlib.import_module(module), name).__mro__[1:]
        if any(inner in vars(base) for base in bases if not base.__module__.startswith("hf_emotion")):
            foreign.add(inner)
    listed = {name for names in PRIVATE.values() for name in names.split() if name.startswith("_")}
    assert foreign == listed, "use what is public, or list it in PRIVATE"
