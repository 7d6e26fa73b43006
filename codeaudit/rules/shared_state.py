"""CA2, the procedure: on which environment, and under which state of the network and of its statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeaudit.evaluation import words
from codeaudit.evaluation.sites import Evidence
from codeaudit.facts import tree as t
from codeaudit.program.flow import CallEvent
from codeaudit.program.index import Function, last_name
from codeaudit.rules.base import (
    Edit,
    Hit,
    Rule,
    Subject,
    call_text,
    is_test,
    keyword,
    last_part,
    place,
    receiver,
)

_MODE = """\
import torch
from torch.distributions import Categorical


class Net(torch.nn.Module):
    def forward(self, obs):
        return Categorical(logits=self.body(torch.nn.functional.dropout(obs, training=self.training)))


def evaluate(net, env):
    net.eval()
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(net(obs).probs.argmax().item())
        total_reward += reward
{restored}    return total_reward


def train(net, env, test_env, optimizer):
    for update in range(1000):
        loss = collect(net, env)
        loss.backward()
        optimizer.step()
        print(evaluate(net, test_env))
"""


class SharedEnvironment(Rule):
    code = "CA204"
    name = "shared-environment-object"
    message = "training and evaluation step the same environment object"
    why = (
        "The evaluation breaks off the training episode, and the observation that training goes on with belongs "
        "to another state. Normalisation statistics and random generators are shared too."
    )
    source = "https://stable-baselines3.readthedocs.io/en/v2.7.0/guide/rl_tips.html (a separate test environment)"
    severity = "error"
    _train = """\
import gym


def evaluate(agent, env):
    obs, done, total_reward = env.reset(), False, 0.0
    while not done:
        obs, reward, done, _ = env.step(agent.act(obs).argmax())
        total_reward += reward
    return total_reward


def main(agent, buffer):
    env = gym.make("CartPole-v1")
{test}    obs = env.reset()
    for step in range(10_000):
        action = agent.act(obs).argmax()
        next_obs, reward, done, _ = env.step(action)
        buffer.add(obs, action, reward, next_obs, done)
        obs = env.reset() if done else next_obs
        agent.update(buffer)
        if step % 1000 == 0:
            print(evaluate(agent, {env}))


main(load_agent(), [])
"""
    good = ({"main.py": _train.format(test='    test_env = gym.make("CartPole-v1")\n', env="test_env")},)
    bad = ({"main.py": _train.format(test="", env="env")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        environments = subject.audit.environments
        training = {
            (id(made.call), made.frame.key): made
            for found in subject.rollouts
            if found.use.kind == "training" and not found.use.lockstep
            for frame in found.frames[:6]
            for made in environments.made(found.rollout.environment, frame)
            if made.call is not None
        }
        for found in subject.rollouts:
            if found.use.kind != "evaluation" or found.use.lockstep:
                continue
            for frame in found.frames[:6]:
                if frame.parent is None or frame.call is None:
                    continue
                caller = frame.parent.function
                event = next((e for e in caller.flow.calls if e.call is frame.call), None)
                every = environments.made(found.rollout.environment, frame)
                same = [m for m in every if (id(m.call), m.frame.key) in training]
                if event is None or not event.context.loops or not same or same[0].place is None:
                    continue
                if len(same) < len(every):
                    continue  # shared in one branch only
                if not _steps_in(subject, caller, event.context.loops[0]):
                    continue
                said = f"`{call_text(frame.call)}` steps the environment that the training loop around it is using"
                evidence = (
                    Evidence(place(caller, frame.call), "evaluates"),
                    Evidence(same[0].place, "makes the one environment"),
                )
                yield Hit(place(caller, frame.call), said, frame.call.end_line, evidence)
                break


class UpdatesNormalisation(Rule):
    code = "CA205"
    name = "evaluation-updates-normalisation"
    message = "the evaluation environment keeps its own, moving normalisation statistics"
    why = (
        "The policy then sees observations scaled otherwise than in training, and otherwise at the end of the "
        "evaluation than at its beginning. Share training's statistics and freeze them."
    )
    source = "https://stable-baselines3.readthedocs.io/en/v2.7.0/guide/vec_envs.html#vecnormalize"
    severity = "error"
    _env = """\
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

eval_env = VecNormalize(DummyVecEnv([make]){arguments})
{after}"""
    good = (
        {"main.py": _env.format(arguments=", training=False", after="")},
        {"main.py": _env.format(arguments="", after="eval_env.training = False\n")},
        {"main.py": _env.format(arguments=", norm_obs=False", after="")},
        {"main.py": _env.format(arguments="", after="eval_env.obs_rms = env.obs_rms\n")},
    )
    bad = ({"main.py": _env.format(arguments="", after="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        for site in subject.calls("VecNormalize", "NormalizeObservation"):
            function, call = site.function, site.call
            names = _bound_to(function, site.event)
            if not any(re.match(r"_*(eval|test|valid|heldout)", last_part(n), re.I) for n in names):
                continue
            off = [keyword(call, k) for k in ("training", "norm_obs", "ob")]
            if any(isinstance(v, t.Const) and v.value is False for v in off) or any(
                isinstance(v, (t.Name, t.Attr, t.Unary)) for v in off
            ):
                continue
            if _frozen_later(names, function):
                continue
            said = f"`{names[0]}` normalises observations by statistics of its own, which the evaluation changes"
            yield Hit(place(function, call), said, call.end_line)


class OldStepApi(Rule):
    code = "CA206"
    name = "gymnasium-api"
    message = "this code assumes Gym's old interface on a Gymnasium environment"
    why = (
        "Gymnasium's `step` gives five values, `reset` gives two and `seed` is an argument of `reset`. The old "
        "form raises, or takes a truncated episode for a finished one."
    )
    source = "https://gymnasium.farama.org/introduction/migration_guide/"
    severity = "error"
    _env = "import gymnasium as gym\n\nenv = gym.make('CartPole-v1')\n{body}"
    good = (
        {
            "main.py": _env.format(
                body="obs, _ = env.reset(seed=1)\nobs, reward, terminated, truncated, info = env.step(0)\n"
            )
        },
    )
    bad = (
        {"main.py": _env.format(body="obs, _ = env.reset(seed=1)\nobs, reward, done, info = env.step(0)\n")},
        {"main.py": _env.format(body="env.seed(1)\n")},
    )

    def check(self, subject: Subject) -> Iterator[Hit]:
        if "gymnasium" not in subject.imported:
            return
        for site in subject.calls("step", "seed"):
            holder = receiver(site.call)
            if not isinstance(holder, t.Name) or not _made_by_gymnasium(holder.id, site.function, subject):
                continue
            if last_name(site.call.func) == "seed":
                if site.call.args:
                    said = f"`{call_text(site.call)}` isn't part of Gymnasium's interface: pass `reset(seed=…)`"
                    yield Hit(place(site.function, site.call), said, site.call.end_line)
                continue
            statement = site.event.statement
            if isinstance(statement, t.Assign) and statement.value is site.call and len(statement.targets) == 1:
                target = statement.targets[0]
                if (
                    isinstance(target, t.Seq)
                    and len(target.items) == 4
                    and not any(isinstance(i, t.Star) for i in target.items)
                ):
                    said = f"`{call_text(site.call)}` gives five values in Gymnasium; four are taken"
                    yield Hit(place(site.function, site.call), said, site.call.end_line)


class ModeNotRestored(Rule):
    code = "CA207"
    name = "mode-not-restored"
    message = "the evaluation puts the network into evaluation mode and never back"
    why = (
        "Training goes on without dropout, with frozen normalisation statistics: from the first evaluation on, "
        "another experiment."
    )
    source = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval"
    severity = "error"
    fixable = "unsafe"
    good = ({"main.py": _MODE.format(restored="    net.train()\n")},)
    bad = ({"main.py": _MODE.format(restored="")},)

    def check(self, subject: Subject) -> Iterator[Hit]:
        restoring = [site for site in subject.calls("train", "train_mode") if _enters_training(site.call)]
        for site in subject.calls("eval"):
            function, call = site.function, site.call
            holder = receiver(call)
            if (
                holder is None
                or call.args
                or function.name == "<module>"
                or not t.dotted(holder)
                or last_part(t.dotted(holder)) == "vec_norm"
            ):
                continue
            if not (
                words.says_evaluation(function.name)
                or any(s.file == function.module.path and s.function == function.name for s in subject.measured)
            ):
                continue
            if any(r.function is function for r in restoring):
                continue
            callers = [c for c in subject.audit.resolver.callers(function) if not is_test(c.function.module)]
            training = [
                c
                for c in callers
                if c.event.context.loops
                and _learns(c.event.context.loops, c.function)
                and not _made_here(holder, function)
            ]
            if not training or any(
                r.function is c.function or _called_from(r.function, c.function, subject)
                for r in restoring
                for c in training
            ):
                continue
            caller = training[0]
            said = f"`{call_text(call)}()` is never undone, and the training loop goes on from here"
            evidence = (
                Evidence(place(function, call), "leaves training mode"),
                Evidence(place(caller.function, caller.call), "calls this between updates"),
            )
            edit = Edit(
                "restore_mode",
                function.module.path,
                function.node.line,
                function.name,
                t.dotted(holder),
                "",
                safe=False,
            )
            yield Hit(place(function, call), said, call.end_line, evidence, edit)


# --- helpers ---------------------------------------------------------------------------------------------------------


def _made_by_gymnasium(name: str, function: Function, subject: Subject) -> bool:
    """Whether every binding of a local or module-level name is the bare result of `gymnasium.make`."""
    found = function.flow.definitions.get(name) or function.module.body.flow.definitions.get(name, [])
    if function.parameter(name) is not None or not found:
        return False
    return all(
        isinstance(d.value, t.Call)
        and not d.selector
        and subject.library(d.value.func, function) in ("gymnasium.make", "gymnasium.make_vec")
        for d in found
    )


def _steps_in(subject: Subject, function: Function, loop: t.Node) -> bool:
    """Whether the loop itself steps a training environment."""
    return any(
        f.rollout.function is function
        and f.use.kind == "training"
        and any(x is loop for x in f.rollout.event.context.loops)
        for f in subject.rollouts
    )


def _bound_to(function: Function, event: CallEvent) -> list[str]:
    """The names that a call's result is bound to by its own statement."""
    statement = event.statement
    if not isinstance(statement, t.Assign):
        return []
    return [name for target in statement.targets if (name := t.dotted(target))]


def _frozen_later(names: list[str], function: Function) -> bool:
    tails = {last_part(n) for n in names}
    for node in t.walk(function.module.file):
        if isinstance(node, t.Assign):
            for target in node.targets:
                if (
                    isinstance(target, t.Attr)
                    and target.name in ("training", "obs_rms", "update_running_mean")
                    and last_name(target.obj) in tails
                ):
                    return True
        if (
            isinstance(node, t.Call)
            and isinstance(node.func, t.Attr)
            and node.func.name in ("eval", "load", "set_training_mode")
        ):
            if last_name(node.func.obj) in tails:
                return True
        if isinstance(node, t.Call) and last_name(node.func) in ("sync_envs_normalization", "EvalCallback"):
            return True  # Stable-Baselines3's callback copies the statistics before each evaluation
    return False


def _enters_training(call: t.Call) -> bool:
    if not isinstance(call.func, t.Attr):
        return False
    return not call.args or not (isinstance(call.args[0].value, t.Const) and call.args[0].value.value is False)


def _made_here(holder: t.Node, function: Function) -> bool:
    """Whether the network is made, or loaded, by the evaluation itself: nobody trains that object."""
    return any(isinstance(d.value, t.Call) for d in function.flow.definitions.get(t.dotted(holder), ()))


def _learns(loops: tuple[t.Node, ...], function: Function) -> bool:
    """Whether gradient steps are taken in the loop, here or in a function whose name says so."""
    return any(
        words.UPDATES.match(last_name(e.call.func))
        or last_name(e.call.func) in ("backward", "learn", "update", "train_step")
        for e in function.flow.calls
        if any(x is loops[0] for x in e.context.loops)
    )


def _called_from(inner: Function, outer: Function, subject: Subject) -> bool:
    """Whether `inner` is reached from `outer` by at most two calls."""
    first = [c.function for c in subject.audit.resolver.callers(inner)]
    return any(f is outer for f in first) or any(
        c.function is outer for f in first[:8] for c in subject.audit.resolver.callers(f)
    )


RULES = (SharedEnvironment, UpdatesNormalisation, OldStepApi, ModeNotRestored)
