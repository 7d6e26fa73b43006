"""The field's words, in one place: how draws, environments, buffers and evaluations are called. Names are hints:
each is used together with what the program does, never alone where the program can be followed."""

from __future__ import annotations

import re

# Methods and functions that give back what they are given, in another form.
CONVERSIONS = {
    "cpu",
    "numpy",
    "detach",
    "item",
    "squeeze",
    "unsqueeze",
    "flatten",
    "view",
    "reshape",
    "long",
    "float",
    "int",
    "to",
    "tolist",
    "clone",
    "copy",
    "astype",
    "cuda",
    "type",
    "transpose",
    "permute",
    "ravel",
    "contiguous",
    "double",
    "expand",
    "byte",
    "clamp",
    "clip",
    "array",
    "asarray",
    "tensor",
    "from_numpy",
    "as_tensor",
    "tuple",
    "list",
    "device_get",
    "stack",
    "concatenate",
    "cat",
    "hstack",
    "vstack",
    "clip_by_value",
    "to_numpy",
    "block_until_ready",
    "data",
    "FloatTensor",
    "LongTensor",
    "Tensor",
    "atleast_1d",
    "expand_dims",
    "stop_gradient",
    "to_np",
    "asscalar",
    "clip_action",
    "round",
    "minimum",
    "maximum",
    "int32",
    "int64",
    "float32",
    "convert_to_tensor",
    "identity",
    "cast",
    "repeat",
    "tile",
    "split",
    "unbind",
    "chunk",
    "gather",
    "device_put",
    "broadcast_to",
    "type_as",
    "swapaxes",
    "tree_map",
    "tree_multimap",
    "get",
    "deepcopy",
    "zip",
    "dict",
    "enumerate",
    "index_select",
    "bool",
    "str",
    "map",
    "range",
    "len",
    "iter",
    "next",
}
UNIT_TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
TEST_FOLDER = re.compile(r"(^|/)(tests|testing)/")


def is_test(path: str) -> bool:
    """Whether a file belongs to the tests: what happens there is no evidence while anything else is."""
    return bool(UNIT_TEST.search(path) or TEST_FOLDER.search(path))


PICKS = {"index_select", "take", "gather", "take_along_dim", "take_along_axis", "batch_gather"}
SQUASHES = {"tanh", "sigmoid", "softsign"}
SAMPLES = {
    "sample", "rsample", "sample_n", "sample_and_log_prob", "experimental_sample_and_log_prob", "multinomial",
    "categorical",
}  # fmt: skip
MODES = {"mode", "argmax", "deterministic_sample", "most_probable", "arg_max", "nanargmax", "greedy_action", "get_mode"}
DISTRIBUTION = re.compile(
    r"(^|_)(dist\w*|pi|pd|policy_dist|probs?|prob_dist|m|categorical|normal|gaussian|distribution|logits_dist|d|action_distribution)$",
    re.I,
)
NETWORK = re.compile(
    r"(actor|policy|pi|net|network|model|module|critic|agent|mu|q\d?|qf\d?|qnet|q_net\w*|q_func|dqn|encoder|forward|apply|fn|"
    r"decoder|online|mlp|brain|head|predict)\w*$",
    re.I,
)
POLICY_CALL = re.compile(
    r"^(_*)(act|acts|action|actions|actor|policy|pi|predict|step|forward|call|select\w*|choose\w*|get_\w*act\w*|"
    r"take_action|best_action|greedy\w*|exploit|explore|sample_action\w*|compute_\w*action\w*|infer\w*|eval_step|"
    r"act_\w+|\w*_act|\w*_actions?|actions?_\w+|\w*policy\w*|agent|model|net|actor\w*|q_network|apply_fn|apply|"
    r"pick_\w+|sample\w*|evaluate_act\w*|run|draw_action|decide|play|controller|\w*_net|online_net|target_net|dqn|ac|"
    r"get_best\w*|predict_action|inference\w*|policy_fn|select|act_fn|e_greedy\w*|epsilon_greedy\w*)$",
    re.I,
)
ENVIRONMENT = re.compile(
    r"(^|_)v?envs?($|_|\d)|^\w*env$|^environments?$|_environments?$|^gym_?env\w*|^venv|"
    r"^(test|eval|train|real|sim)_?envs?\w*$|^task$|^game$|^simulator$|Env$",
    re.I,
)
SPACE = re.compile(r"(action_spaces?|act_space|ac_space|single_action_space|action_spec)$")
BUFFER = re.compile(
    r"(buffer|replay|memory|rollouts?|storage|dataset|trajector|transition|experience|batch|rb|pool|mem|histor)\w*$",
    re.I,
)
STORES = {
    "insert",
    "add",
    "push",
    "store",
    "store_transition",
    "remember",
    "put",
    "add_transition",
    "cache",
    "add_sample",
    "add_batch",
    "feed",
    "observe",
    "perceive",
    "add_experience",
    "append_sample",
    "save_transition",
    "store_frame",
    "record",
    "push_transition",
    "add_step",
    "insert_transition",
    "extend",
    "write",
    "put_data",
    "memorize",
    "update_buffer",
    "save_experience",
    "store_experience",
    "add_timestep",
    "observe_step",
}
UPDATES = re.compile(
    r"^_*(backward|learn\w*|optimize\w*|optimise\w*|update\w*|train\w*|fit|apply_gradients|apply_updates|minimize|"
    r"improve|gradient_step|do_update|sgd_step|run_train_op)$"
)
NO_UPDATE = re.compile(
    r"(bar|tqdm|progress|logger|log|writer|wandb|config|stats|info\w*|metrics?|dict|env\w*|kwargs|meter\w*|monitor|timer|"
    r"tracker|summary|args|normalizer|rms|running\w*|visuali\w+|state|task|status|plot\w*|gui|display|window|screen|"
    r"viewer|self|pb)$",
    re.I,
)

# Where numbers are written down.
# fmt: off
LOGS = {
    "print", "log", "info", "logkv", "add_scalar", "record", "write", "add_scalars", "logkv_mean", "log_metric",
    "log_metrics", "report", "scalar", "debug", "warning", "log_scalar", "record_tabular", "writerow", "save",
    "savetxt", "dump", "log_stat", "set_description", "append_row", "add", "record_mean", "log_tabular", "image",
    "line", "update_stats", "push", "report_result", "summary", "update", "log_value", "write_scalars",
    "scalar_summary", "put", "set_postfix", "send", "log_eval", "log_stats", "echo", "log_episode", "emit", "plot",
    "savez", "to_csv", "format", "logging", "track",
}
# fmt: on

EVALUATION = re.compile(
    r"(^|_|\b)(eval\w*|test\w*|validat\w*|score\w*|benchmark\w*|assess\w*|measure\w*)(_|$|\b)", re.I
)
EVALUATION_CAMEL = re.compile(r"(Eval|Test|Validat)")
DEMO = re.compile(
    r"(^|_|\b)(enjoy\w*|(?<!self_)play|playing|playback|demo\w*|visuali[sz]\w*|render\w*|watch\w*|record\w*|video\w*|gif\w*|show\w*|viz\w*|animate\w*|(generate_)?replay(_video|_policy)?|make_gif|display)(_|$|\b)",
    re.I,
)
TRAINING = re.compile(
    r"(^|_|\b)(train\w*|learn\w*|collect\w*|explor\w*|warm_?up|worker|actor|update\w*|optimi\w*|pretrain\w*|gather\w*|data_gen\w*|fill\w*|init_buffer)(_|$|\b)",
    re.I,
)
HELDOUT_NAME = re.compile(
    r"(^|_)(test|eval|evaluation|valid|validation|heldout|held_out|unseen|ood|generali[sz]ation)(_|$|\d|env|s)", re.I
)
LOG_PROB = re.compile(r"(neg_?log_?p|log_?prob|log_?pi|logp)", re.I)
POLICY_METHOD = re.compile(
    r"^_*(act|acts|action|actions|step|predict|select\w*|choose\w*|get_\w*|take_action|best_action|compute_\w*|sample\w*|eval_step|decide|play|run|infer\w*|\w*_actions?)$"
)
LEARNED_SCALE = re.compile(r"(^|_)(log_?std|log_?sigma|log_?scale|std|sigma|stddev|std_?dev|logstd)(_|$)", re.I)
SCORE_TEXT = re.compile(r"(mean|average|avg)\W{0,3}(reward|return|score|\W|$)|mean_reward|reward|return\b|score", re.I)
SPLIT_NAME = re.compile(r"(^|_)(train|eval|test|valid)", re.I)
TRAINING_NAME = re.compile(r"(^|_)train", re.I)
RULE_NAME = re.compile(r"(determin|stochastic|greedy|argmax|sample|explor|random|rand_|noise)", re.I)
DISPATCH = re.compile(
    r"(^|_)(algo|algorithm|alg|agent|which_agent|agent_type|agent_name|method|algo_name|policy_type|model_type|algo_type|rl_algo)$",
    re.I,
)
RANDOM_CALLS = {"random", "rand", "uniform", "random_sample", "ranf", "random_uniform", "rand_like"}
UNIFORM_ACTIONS = {
    "randint",
    "randrange",
    "choice",
    "random_integers",
    "integers",
    "random_action",
    "uniform",
    "rand",
    "choices",
}
GAUSSIAN = {
    "normal",
    "randn",
    "randn_like",
    "standard_normal",
    "gauss",
    "truncated_normal",
    "random_normal",
    "normalvariate",
    "laplace",
}
LEARNED_MODEL = re.compile(r"(^|_)(fake|model|imagin\w*|dream\w*|learned)_?env", re.I)  # stepping it measures nothing
LOOKS_AHEAD = re.compile(r"MCTS|TreeSearch|Planner(?!Agent)|LookAhead")  # classes that step copies to decide
PLANNER = re.compile(r"mcts|tree_?search|mppi", re.I)
OTHER_PLAYER = re.compile(r"human|keyboard|teleop|gamepad|joystick|opponent", re.I)  # who acts there isn't the agent
SCALE = re.compile(r"(^|_)(limit|scale|high|low|max|min|bound|range)(_|$)", re.I)  # what an action is multiplied with
NOISE_NAME = re.compile(r"noise", re.I)
EXPLORATION_NAME = re.compile(r"noise|expl", re.I)
REWARD = re.compile(r"(reward|rew|return|score|ret$|^r$|^rs$|success|^G$|ep_r|episode_r)", re.I)
EPISODE = re.compile(r"(episode|epinfo|ep_info|eprew|ep_rew|ep_ret|final_info|r$)", re.I)

# Keywords that tell an unknown callee the rule: (rule when true, rule when false).
RULE_KEYWORDS: dict[str, tuple[str, str]] = {
    "deterministic": ("greedy", "sampled"),
    "greedy": ("greedy", "sampled"),
    "is_deterministic": ("greedy", "sampled"),
    "stochastic": ("sampled", "greedy"),
    "sample": ("sampled", "greedy"),
    "explore": ("sampled", "greedy"),
    "exploration": ("sampled", "greedy"),
    "add_noise": ("noisy", "greedy"),
    "noise": ("noisy", "greedy"),
    "argmax": ("greedy", "sampled"),
    "evaluate": ("greedy", "sampled"),
    "eval": ("greedy", "sampled"),
    "eval_mode": ("greedy", "sampled"),
    "test": ("greedy", "sampled"),
    "is_eval": ("greedy", "sampled"),
    "use_mode": ("greedy", "sampled"),
    "mode": ("greedy", "sampled"),
}


def says_evaluation(name: str) -> bool:
    return bool(EVALUATION.search(name) or EVALUATION_CAMEL.search(name))
