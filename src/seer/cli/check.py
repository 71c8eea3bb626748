"""`seer check`: whether an engine draws its tokens from the model's distribution, drafts or not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.console import Console

from seer.cli.check_report import arms_table, closing_lines
from seer.cli.faithful import VLLM, keep_verdict
from seer.cli.interrupt import run_interruptible
from seer.cli.messages import tell
from seer.cli.model import model_dir
from seer.cli.name_lists import names_by_commas
from seer.engines.fidelity.arms import ARMS, PLAIN, CheckPlan
from seer.engines.fidelity.check import PROMPTS, judge_all, sample_all
from seer.engines.fidelity.report import CheckReport, NotFaithful
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.engines.vllm.versions import check_vllm
from seer.errors import EngineFailure, InvalidInput
from seer.setting_fields import about, check_minimum
from seer.types import SamplingParams

if TYPE_CHECKING:
    from seer.engines.fidelity.reference import Reference


class CheckSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `seer check`."""

    engine: Annotated[Literal["local", "vllm"], about("local or vllm")] = "local"
    model: Annotated[
        str | None,
        about("model directory in Hugging Face format (default: SmolLM2-135M-Instruct)"),
    ] = None
    dtype: Annotated[str, about("bfloat16 or float32")] = "bfloat16"
    device: Annotated[str, about("cpu or cuda")] = "cpu"
    kv_tokens: Annotated[int, about("tokens of KV that one instance holds")] = 8192
    max_running: Annotated[int, about("requests that one instance runs at once")] = 32

    unrepaired: Annotated[bool, about("vllm: verify drafts as it comes, without our repair")] = (
        False
    )
    allow_untried_vllm: Annotated[bool, about("vllm: go on with an untried release")] = False

    arms: Annotated[
        str, about("what is sampled: plain, drafts, moves (drafts, in chunks, on two instances)")
    ] = ",".join(ARMS)
    seeds: Annotated[int, about("rollouts of each, with different seeds")] = 20
    group_size: Annotated[int, about("responses for each of the four prompts")] = 4
    max_tokens: Annotated[int, about("tokens of a response")] = 32
    chunk_size: Annotated[int, about("tokens of a chunk, in `moves`")] = 8
    drafting: Annotated[str, about("seer, marginal, or fixed:N guesses a step")] = "fixed:4"
    temperature: Annotated[float, about("softmax temperature, above 0")] = 0.8
    top_p: Annotated[float, about("nucleus mass; 1 is off")] = 1.0
    top_k: Annotated[int, about("keep the k likeliest tokens; 0 is off")] = 0
    min_p: Annotated[float, about("keep tokens of at least min_p times the top; 0 is off")] = 0.0
    seed: Annotated[int, about("the first seed")] = 0
    false_alarm: Annotated[
        float, about("probability, at most, that a right engine fails by chance")
    ] = 0.001
    json: Annotated[str | None, about("file for all numbers")] = None

    def __post_init__(self) -> None:
        check_minimum(self, {"seeds": 1, "kv_tokens": 1, "max_running": 1})
        unknown = [arm for arm in self.arm_names if arm not in ARMS]
        if unknown:
            raise InvalidInput("arms", ", ".join(unknown), f"allowed: {', '.join(ARMS)}")
        if not 0 < self.false_alarm < 1:
            raise InvalidInput("false_alarm", self.false_alarm, "allowed: above 0, below 1")
        if self.json is not None and not Path(self.json).absolute().parent.is_dir():
            raise InvalidInput("json", self.json, "allowed: a file in an existing directory")

    @property
    def arm_names(self) -> list[str]:
        """The arms in the order given."""
        return names_by_commas("arms", self.arms)

    @property
    def plan(self) -> CheckPlan:
        """What is sampled. Raises InvalidInput on a bad value."""
        sampling = SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.max_tokens,
            seed=self.seed,
        )
        return CheckPlan(
            sampling=sampling,
            num_seeds=self.seeds,
            group_size=self.group_size,
            drafting=self.drafting,
            chunk_size=self.chunk_size,
        )


def run_check(settings: CheckSettings) -> None:
    """Test whether an engine's tokens follow the model's distribution, also with drafts."""
    plan = settings.plan
    spec = _spec(settings)
    report = _check(settings, plan, spec)
    if settings.json is not None:
        Path(settings.json).write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    Console().print(arms_table(report, plan))
    for line in closing_lines(report):
        typer.echo(line)
    if isinstance(spec, VllmSpec) and not settings.unrepaired:
        _keep(spec, settings, report)
    if not report.passed:
        raise NotFaithful("the engine's tokens are not the model's: do not train on them")


def _check(settings: CheckSettings, plan: CheckPlan, spec: LocalSpec | VllmSpec) -> CheckReport:
    specs = {
        arm: ProcessSpec(inner=_with_max_running(spec, arm, plan)) for arm in settings.arm_names
    }
    sampled = run_interruptible(sample_all(specs, plan, PROMPTS, tell))
    tell("rescoring with transformers, in float32")
    reference = _load_reference(spec.model, spec.dtype)
    return judge_all(sampled, plan, spec.dtype, reference.score, settings.false_alarm)


def _keep(spec: VllmSpec, settings: CheckSettings, report: CheckReport) -> None:
    """A verdict on all arms decides whether rollouts may draft."""
    if report.passed and set(settings.arm_names) != set(ARMS):
        tell(f"not remembered: only a check of {', '.join(ARMS)} lets rollouts draft")
        return
    path = keep_verdict(spec, settings.plan.sampling, report)
    if path is not None:
        typer.echo(f"rollouts may draft; remembered in {path}")


def _spec(settings: CheckSettings) -> LocalSpec | VllmSpec:
    """The engine, checked before the default model is prepared for it."""
    spec = _vllm_spec(settings) if settings.engine == VLLM else _local_spec(settings)
    spec = msgspec.structs.replace(spec, model=model_dir(settings.model))
    spec.describe()  # refuses a bad model before anything is started
    return spec


def _local_spec(settings: CheckSettings) -> LocalSpec:
    return LocalSpec(
        model=settings.model or "",
        dtype=settings.dtype,
        device=settings.device,
        kv_tokens=settings.kv_tokens,
        max_running_requests=settings.max_running,
    )


def _vllm_spec(settings: CheckSettings) -> VllmSpec:
    if settings.device not in ("cpu", "cuda"):
        raise InvalidInput("device", settings.device, "allowed with vllm: cpu, cuda")
    if settings.min_p > 0 and set(settings.arm_names) != {PLAIN}:
        raise InvalidInput("min_p", settings.min_p, "allowed with drafts in vLLM: 0")
    spec = VllmSpec(
        model=settings.model or "",
        dtype=settings.dtype,
        device=settings.device,
        kv_tokens=settings.kv_tokens,
        max_running_requests=settings.max_running,
        repair_sampler=not settings.unrepaired,
        allow_untried=settings.allow_untried_vllm,
    )
    check_vllm(spec.device, allow_untried=spec.allow_untried)
    return spec


def _with_max_running(
    spec: LocalSpec | VllmSpec, arm: str, plan: CheckPlan
) -> LocalSpec | VllmSpec:
    most = plan.max_running(arm, len(PROMPTS), spec.max_running_requests)
    return msgspec.structs.replace(spec, max_running_requests=most)


def _load_reference(model: str, dtype: str) -> "Reference":
    try:
        from seer.engines.fidelity.reference import Reference  # noqa: PLC0415 - heavy, optional
    except ImportError as error:
        raise EngineFailure(
            f"the reference needs torch and transformers ({error}): pip install 'seer-rl[local]'"
        ) from error
    return Reference(model, dtype)
