"""What kind of agent a draw belongs to: from how the action is made, and from what the code calls the agent."""

from __future__ import annotations

import re

from codeaudit.evaluation.draw import Draw
from codeaudit.evaluation.sites import Agent

VALUE = re.compile(
    r"(dqn|(^|[^a-z])pqn|rainbow|(^|[^a-z])q_?learn|qr_?dqn|iqn|fqf|c51|ddqn|deepq|q_?net|sarsa|dueling|r2d2|quantile|categorical_?dqn|agent57|qdagger|munchausen|tabular)",
    re.I,
)
CONTINUOUS = re.compile(
    r"(ddpg|td3|soft_?actor|redq|drq|awac|crossq|d4pg|edac|lb_?sac|sunrise|droq|rebrac|rad_?sac|sacae|sac_ae|svea|soda|"
    r"spr_?sac|her([^a-z]|$)|td7|iris_?sac|dmpo|bcq|"
    r"(^|[^a-z])(sac|curl|iql|cql|bear|naf|tqc|mpo|bro|awr|proto|spot|xql)([^a-z]|$))",
    re.I,
)
MODEL_BASED = re.compile(
    r"(dreamer|planet|mbpo|mu_?zero|alpha_?zero|(^|[^a-z])mcts|tree_?search|pets|"
    r"world_?model|td_?mpc|(^|[^a-z])mpc|simple_?world|slac|rssm|iris)",
    re.I,
)
OTHER = re.compile(
    r"((^|[^a-z])bc([^a-z]|$)|behaviou?r(al)?_?clon|decision_?transformer|(^|[^a-z])dt([^a-z]|$)|imitation|evolution|(^|[^a-z])es([^a-z]|$)|cem|dagger|scripted|heuristic|oracle)",
    re.I,
)
GRADIENT = re.compile(
    r"(ppo|a2c|a3c|trpo|acktr|vpg|reinforce|policy_?gradient|actor_?critic|impala|ppg|acer|vtrace|pg)",
    re.I,
)


def _words(text: str) -> str:
    """CamelCase and paths as words separated by underscores."""
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text.replace("DrQ", "Drq"))
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).replace("/", "_").replace(".", "_").replace("-", "_")


def agent_of(rule: str, draws: list[Draw], owners: list[str], function: str, path: str) -> Agent:
    """The class of agent, looked for in the nearest names first: the policy's class, the function, the file, its
    folder."""
    if rule == "uniform_random" and all(d.rule == "uniform_random" for d in draws):
        return "random"
    parts = path.split("/")
    nearest = [
        *owners,
        *[d.owner for d in draws if d.owner],
        function,
        parts[-1].rpartition(".")[0],
        *reversed(parts[:-1]),
    ]
    by_draw = any(d.value_based for d in draws)
    squashed = any(d.squashed for d in draws)
    deterministic = bool(draws) and all(d.rule in ("network", "noisy") and not d.value_based for d in draws)
    for name in [n for n in nearest if n]:
        text = f"{_words(name)} {name}"
        if MODEL_BASED.search(text):
            return "model_based"
        if OTHER.search(text) and not re.search(r"td3|sac", text, re.I):
            return "other"
        if VALUE.search(text) and rule in ("greedy", "epsilon_greedy", "noisy", "unknown") and not squashed:
            return "value_based"
        if CONTINUOUS.search(text) and not (by_draw and rule == "epsilon_greedy"):
            return "actor_critic_continuous"
        if GRADIENT.search(text) and not by_draw and not (deterministic and squashed):
            return "policy_gradient"
    if by_draw or rule == "epsilon_greedy":
        return "value_based"
    if deterministic or squashed:
        return "actor_critic_continuous"
    return "policy_gradient"
