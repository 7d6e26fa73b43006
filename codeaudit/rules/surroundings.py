"""CA7, the environment of the run: which versions, which Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from codeaudit.evaluation.sites import Place
from codeaudit.rules.base import Hit, Rule, Subject

# Import name → the names under which it is installed. These decide dynamics, rewards, random streams or numerics.
DECISIVE: Mapping[str, str] = {
    "gym": "gym",
    "gymnasium": "gymnasium",
    "procgen": r"procgen(?:-mirror)?",
    "minatar": "minatar",
    "ale_py": "ale[-_]py",
    "atari_py": "atari[-_]py",
    "dm_control": "dm[-_]control",
    "mujoco": "mujoco",
    "mujoco_py": "mujoco[-_]py",
    "d4rl": "d4rl",
    "torch": r"(?:py)?torch",
    "tensorflow": r"tensorflow(?:-gpu|-cpu)?",
    "jax": "jax",
    "gymnax": "gymnax",
    "envpool": "envpool",
    "stable_baselines3": "stable[-_]baselines3",
    "gym_minigrid": "gym[-_]minigrid",
    "minigrid": "minigrid",
    "gym3": "gym3",
    "highway_env": "highway[-_]env",
}
LOCKS = re.compile(
    r"(^|/)(poetry\.lock|uv\.lock|Pipfile\.lock|pdm\.lock|conda-lock\.ya?ml|constraints[^/]*\.txt|requirements[^/]*\.lock)$"
)
DECLARES = re.compile(
    r"(^|/)(requirements[^/]*\.(txt|in)|[^/]*requirements\.txt|requirements/[^/]+\.txt|environment[^/]*\.ya?ml|[^/]*env[^/]*\.ya?ml|conda[^/]*\.ya?ml|"
    r"setup\.(py|cfg)|pyproject\.toml|Pipfile(\.lock)?|poetry\.lock|uv\.lock|pdm\.lock|constraints[^/]*\.txt|(?i:[^/]*Dockerfile[^/]*)|"
    r"\.python-version|runtime\.txt|tox\.ini|\.travis\.yml|\.github/workflows/[^/]+\.ya?ml|[^/]*install[^/]*\.sh|requirements[^/]*\.lock|README[^/]*)$"
)
PYTHON = re.compile(
    r"(python_requires|requires-python|python_version|python\s*[=<>~!]=?\s*[\"']?[\d^~><=]|FROM\s+\S*python:|python-version|python3?\.\d+|"
    r"Python :: 3\.\d|miniconda|py3\d|python:\s*\n\s*-\s*[\"']?[23])"
)
GIT = re.compile(r"git\+\w+://[^\s\"'#;,\])\\]+")


def declares(path: str) -> bool:
    """Whether a file says how the code is installed; its text is given to the rules."""
    return bool(DECLARES.search(path)) or ("/" not in path and path.endswith((".yml", ".yaml")))


class UnpinnedDependencies(Rule):
    code = "CA701"
    name = "unpinned-dependencies"
    message = "nothing pins, or bounds, the versions that decide the results"
    why = (
        "Dynamics, rewards, random streams and defaults of Gym, ProcGen and PyTorch changed between versions. "
        "Without a version the published numbers belong to no code that can be installed."
    )
    source = "https://arxiv.org/abs/2003.12206 (Pineau et al., Improving Reproducibility in Machine Learning Research)"
    good = (
        {"main.py": "import gym\n", "requirements.txt": "gym==0.21.0\n"},
        {
            "main.py": "import gym\n",
            "requirements.txt": "gym\n",
            "poetry.lock": "[[package]]\nname = 'gym'\nversion = '0.21.0'\n",
        },
    )
    bad = ({"main.py": "import gym\n", "requirements.txt": "gym>=0.17\nnumpy\n"}, {"main.py": "import gym\n"})

    def check(self, subject: Subject) -> Iterator[Hit]:
        if any(LOCKS.search(path) for path in subject.texts):
            return
        used = {name: where for name, where in subject.imported_on_top.items() if name in DECISIVE}
        texts = list(subject.texts.values())
        loose = [name for name in sorted(used) if not any(_pinned(DECISIVE[name], text) for text in texts)]
        if not loose:
            return
        where = next((p for name in loose for p in _mentions(DECISIVE[name], subject.texts)), None) or used[loose[0]]
        yield Hit(where, f"no file pins {_listed(loose)}; results depend on when they are installed")


class GitHead(Rule):
    code = "CA702"
    name = "git-head-dependency"
    message = "a dependency is taken from the tip of a git branch"
    why = "The same line installs other code tomorrow. Name a commit or a tag after `@`."
    source = "https://pip.pypa.io/en/stable/topics/vcs-support/"
    good = ({"main.py": "x = 1\n", "requirements.txt": "git+https://github.com/o/n.git@0a1b2c3d4e5f\n"},)
    bad = (
        {"main.py": "x = 1\n", "requirements.txt": "git+https://github.com/o/n.git\n"},
        {"main.py": "x = 1\n", "requirements.txt": "-e git+https://github.com/o/n.git@master#egg=n\n"},
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        for path, text in sorted(subject.texts.items()):
            if _is_prose(path):
                continue
            for number, line in enumerate(text.split("\n"), start=1):
                for match in GIT.finditer("" if line.lstrip().startswith("#") else line):
                    reference = match[0].partition("://")[2].rpartition("@")
                    moving = (
                        reference[2] in ("master", "main", "HEAD", "dev", "develop") if "/" in reference[0] else True
                    )
                    if moving:
                        said = f"`{match[0]}` names no commit: what it installs changes with every push"
                        yield Hit(Place(path, number), said)


class NoPythonVersion(Rule):
    code = "CA703"
    name = "no-python-version"
    message = "no file says which Python the code was run with"
    why = (
        "Old reinforcement-learning packages install on few Python versions; without one the rest of the pins "
        "can't be used."
    )
    source = "https://packaging.python.org/en/latest/specifications/core-metadata/#requires-python"
    severity = "note"
    good = (
        {
            "main.py": "import gym\n",
            "setup.py": "from setuptools import setup\nsetup(name='x', python_requires='>=3.7')\n",
        },
    )
    bad = ({"main.py": "import gym\n", "requirements.txt": "gym==0.21.0\n"},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        used = [where for name, where in subject.imported.items() if name in DECISIVE]
        if all(where.file.endswith(".ipynb") for where in used):
            return  # a notebook records its kernel
        if not used or any(PYTHON.search(text) for text in subject.texts.values()):
            return
        if any(re.search(r"(?i)\bpython ?[23]\.\d+", text) for text in subject.texts.values()):
            return
        declared = sorted((p for p in subject.texts if not _is_prose(p)), key=lambda p: (p.count("/"), p))
        where = Place(declared[0], 1) if declared else min(used)
        yield Hit(where, "neither a requirement, a lock file nor a Dockerfile says which Python to use")


# --- helpers ---------------------------------------------------------------------------------------------------------


def _is_prose(path: str) -> bool:
    return path.rpartition("/")[2].startswith("README")


def _pinned(name: str, text: str) -> bool:
    return bool(
        re.search(
            rf"(?im)(?<![\w-]){name}(?:\[[^\]]*\])?[\"']?\s*(?:={{1,3}}|@|:|~=)\s*[\"']?(?:={{2,3}}|[\^~])?v?\d", text
        )
        or re.search(
            rf"(?im)(?<![\w-]){name}(?:\[[^\]]*\])?\s*(?:[<>=!]=?\s*[\w.*]+\s*,\s*)*<=?\s*\d", text
        )  # an upper bound
        or re.search(rf"(?im)(?<![\w-]){name}[\w.-]*(?:\.git)?@[0-9a-f]{{7,40}}\b", text)
        or re.search(rf"(?im)(?<![\w-]){name}-\d[\w.]*\.(?:whl|tar\.gz)", text)
    )


def _mentions(name: str, texts: Mapping[str, str]) -> list[Place]:
    for path, text in sorted(texts.items(), key=lambda item: (item[0].count("/"), item[0])):
        if not _is_prose(path):
            for number, line in enumerate(text.split("\n"), start=1):
                if re.search(rf"(?i)(?<![\w-]){name}(?![\w.-])", line) and not line.lstrip().startswith("#"):
                    return [Place(path, number)]
    return []


def _listed(names: list[str]) -> str:
    quoted = [f"`{n}`" for n in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


RULES = (UnpinnedDependencies, GitHead, NoPythonVersion)
