"""Whether a call is itself the draw: a sample, an argmax, a mode, a uniform choice, or a library call whose model
says so."""

from __future__ import annotations

from codeaudit.evaluation import words
from codeaudit.evaluation.draw import Decision, Draw
from codeaudit.evaluation.noise import Noise
from codeaudit.facts import tree as t
from codeaudit.program.flow import Context, Selector
from codeaudit.program.folding import Origin
from codeaudit.program.frames import Frame, FunctionValue, Instance, Library
from codeaudit.program.index import last_name


class Sinks(Noise):
    """Draws that one call makes."""

    def _draw(self, rule: str, node: t.Node, frame: Frame, **more: object) -> Draw:
        return Draw(rule, frame.function.module.path, node.line, frame.function, **more)  # type: ignore[arg-type]

    def _drawn_here(
        self, node: t.Call, name: str, receiver: t.Node | None, selector: Selector, frame: Frame, use: Context | None
    ) -> list[Draw] | None:
        """The draw, if this very call is one; None where the call has to be looked into."""
        dotted = t.dotted(node.func)
        held_by = last_name(receiver) if receiver is not None else ""
        if name == "sample" and (words.SPACE.search(held_by) or held_by.endswith("space")):
            return [self._draw("uniform_random", node, frame)]
        if name in words.SAMPLES or (name == "sample" and receiver is not None):
            if words.BUFFER.search(held_by) and not words.DISTRIBUTION.search(held_by):
                return []
            if name not in ("multinomial", "categorical", "random_categorical") and receiver is not None:
                if self._noise_free(node, receiver, frame):
                    known = self._noise_free(node, receiver, frame)
                    assert known is not None
                    decision = Decision(frame.function.module.path, node.line, known.origin, "the scale is zero")
                    return [self._draw("greedy", node, frame, decisions=(decision,))]
                own = [v for v in self.resolver.targets(node, frame) if isinstance(v, FunctionValue)]
                if own and not self._is_distribution_class(own[0]):
                    return None
                return [self._draw("sampled", node, frame)]
            if name in ("multinomial", "categorical", "random_categorical") and (receiver is None or held_by in (
                "torch", "F", "random", "tf", "jax", "np", "jrandom", "jr", "distributions")):  # fmt: skip
                return [self._draw("sampled", node, frame)]
        if name in ("choice", "choices"):
            weighted = (len(node.args) > 1 and any(a.name in ("p", "weights") for a in node.args)) or len(node.args) > 3
            if weighted:
                return [self._draw("sampled", node, frame)]
            if "random" in dotted or held_by in ("rng", "random", "np_random"):
                return [self._draw("uniform_random", node, frame)]
        if name in ("randint", "randrange", "integers", "random_integers", "random_uniform") or (
            name in ("uniform", "rand") and ("random" in dotted or held_by in ("rng", "np", "torch"))
        ):
            return [self._draw("uniform_random", node, frame)]
        if name == "randrange" or name == "random_action":
            return [self._draw("uniform_random", node, frame)]
        if name in ("argmax", "arg_max", "nanargmax", "argmin") or (
            name == "max" and selector[:1] in ((1,), ("indices",))
        ):
            over = receiver if receiver is not None and not _is_module_name(receiver) else None
            if over is None and node.args:
                over = node.args[0].value
            return [self._argmax(node, over or node, frame, use)]
        ranked = next((a.value for a in node.args if a.name == "key"), None) if receiver is None else None
        if ranked is not None and (name in ("max", "min") or (name == "sorted" and selector[:1] in ((0,), (-1,)))):
            return [self._argmax(node, ranked, frame, use)]  # the first of those that are ranked by a value
        if name in ("mode", "deterministic_sample", "get_mode", "most_probable") and receiver is not None:
            return [self._draw("greedy", node, frame)]
        if name in ("topk", "argsort") and receiver is not None:
            return [self._draw("greedy", node, frame)]
        if name == "mean" and receiver is not None and self._is_distribution(receiver, frame):
            return [self._draw("greedy", node, frame)]
        return None

    def _argmax(self, node: t.Call, over: t.Node, frame: Frame, use: Context | None) -> Draw:
        parts = self._expanded(over, frame, use)
        names = [last_name(p.func) for p, _ in parts if isinstance(p, t.Call)]
        texts = [last_name(p) for p, _ in parts if isinstance(p, (t.Name, t.Attr))]
        if any("gumbel" in n.lower() for n in (*names, *texts)) or names.count("log") >= 2:
            return self._draw("sampled", node, frame, why="argmax over Gumbel-perturbed logits is a sample")
        if "cumsum" in names and any(n in words.RANDOM_CALLS for n in names):
            return self._draw("sampled", node, frame, why="the first class whose cumulated probability exceeds a draw")
        value_based = any(_says_value(n) for n in (*names, *texts))
        if any(n in words.GAUSSIAN for n in names):
            return self._draw("noisy", node, frame, value_based=True)
        if self._is_noisy_network([p for p, _ in parts if isinstance(p, t.Call)], frame):
            why = "argmax of a network whose layers carry noise, which is live outside evaluation mode"
            return self._draw("noisy", node, frame, value_based=True, why=why)
        return self._draw("greedy", node, frame, value_based=value_based)

    def _is_distribution_class(self, value: FunctionValue) -> bool:
        owner = value.function.owner
        if owner is None:
            return False
        names = {owner.name, *(last_name(b) for b in owner.node.bases)}
        names.update(n.rpartition(".")[2] for n in self.resolver.library_bases(owner))
        if any(word in owner.name.lower() for word in ("policy", "actor", "agent", "model", "net")):
            return False  # a policy with a distribution in its name: its `sample` has to be looked into
        pattern = (
            "categorical",
            "normal",
            "gaussian",
            "distribution",
            "dist",
            "bernoulli",
            "pd",
            "beta",
            "transformed",
        )
        return any(any(p in n.lower() for p in pattern) for n in names)

    def _is_distribution(self, node: t.Node, frame: Frame) -> bool:
        if words.DISTRIBUTION.search(last_name(node)):
            return True
        for value in self.resolver.types(node, frame):
            if isinstance(value, Library) and any(
                p in value.name.rpartition(".")[2].lower()
                for p in ("normal", "categorical", "distribution", "gaussian", "beta")
            ):
                return True
            if isinstance(value, Instance) and any(
                p in value.info.name.lower()
                for p in ("normal", "categorical", "distribution", "gaussian", "pd", "dist")
            ):
                return True
        return False

    def _modelled(
        self, node: t.Call, name: str, library: Library | None, entered: bool, frame: Frame, use: Context | None
    ) -> Draw | None:
        """A library's action call, by its model; or an unknown callee that is told the rule by a well-known keyword."""
        if entered:
            return None
        file = frame.function.module.path
        for model in self.libraries.by_name.get(name, ()) if library is not None else ():
            parts = library.name.split(".") if library is not None else []
            if model.kind != "action" or parts[0] not in model.packages:
                continue
            if model.of and not any(part in model.of for part in parts[1:-1]):
                continue
            if model.parameter is None:
                return self._draw(model.always, node, frame, why=f"as {model.library} does in `{model.name}`")
            given = next((a.value for a in node.args if a.name == model.parameter.name), None)
            positional = [a.value for a in node.args if not a.name]
            if given is None and model.parameter.position is not None and model.parameter.position < len(positional):
                given = positional[model.parameter.position]
            known = self.evaluator.likely(given, frame, use) if given is not None else None
            if given is None:
                origin = Origin("library", f"{model.library}:{model.name}", 0, model.parameter.name)
                value = model.parameter.default
            elif known is None:
                return self._draw("unknown", node, frame, why=f"the value of `{model.parameter.name}` isn't known")
            else:
                origin, value = known.origin, known.value
            decision = Decision(file, node.line, origin, f"`{model.parameter.name}` decides in {model.library}")
            owner = next((part for part in parts[1:-1] if part[:1].isupper()), "")
            rule = model.when_true if value else model.when_false
            return self._draw(rule, node, frame, decisions=(decision,), owner=owner)
        for arg in node.args:
            kind = words.RULE_KEYWORDS.get(arg.name)
            if kind is None:
                continue
            known = self.evaluator.evaluate(arg.value, frame, use)
            if known is not None and isinstance(known.value, (bool, int)):
                rule = kind[0] if known.value else kind[1]
                decision = Decision(file, node.line, known.origin, f"`{arg.name}` decides in the callee")
                return self._draw(rule, node, frame, decisions=(decision,), sure=False)
        return None

    def _opaque(self, node: t.Call, name: str, receiver: t.Node | None, frame: Frame) -> Draw:
        """A call that can't be looked into. What comes back beside the action may still say how it was made."""
        beside = [n for n, ds in frame.function.flow.definitions.items() for d in ds if d.value is node]
        if any(words.LOG_PROB.search(n) for n in beside):
            return self._draw(
                "sampled", node, frame, sure=False, why="a log-probability of the drawn action comes with it"
            )
        own = receiver is not None and last_name(receiver) == frame.function.self_name
        if receiver is None or not words.POLICY_METHOD.search(name):
            return self._draw("network", node, frame, sure=own)  # `actor(obs)`, `self.network(obs)`
        return self._draw("unknown", node, frame, sure=False, why=f"`{name}` can't be looked into")


def _is_module_name(node: t.Node) -> bool:
    return t.dotted(node) in ("np", "torch", "jnp", "tf", "numpy", "F", "tf.math", "jax.numpy", "onp", "U", "xp")


def _says_value(name: str) -> bool:
    low = name.lower()
    return (
        low.startswith(("q", "dqn"))
        or low in ("value", "values", "advantage")
        or "q_val" in low
        or "qval" in low
        or "_q" in low
    )
