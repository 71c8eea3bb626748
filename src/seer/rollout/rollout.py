"""The public entry: prompts in, groups of responses out as they finish."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from seer.drafting.config import OFF
from seer.errors import EngineFailure, InvalidInput, RolloutCancelled, SeerError
from seer.rollout.config import RolloutConfig
from seer.rollout.controller_config import check_fits
from seer.rollout.driver import Driver
from seer.rollout.events import FinishGroup, GroupCancelled, GroupsSubmitted
from seer.rollout.fleet import RELAUNCH_TRIES, Fleet
from seer.rollout.metrics import MetricsBuilder, RolloutMetrics
from seer.rollout.progress import ProgressMeter
from seer.rollout.prompts import EncodedPrompt, Prompt, encode_prompts
from seer.rollout.results import Completion, GroupResult, RolloutProgress
from seer.rollout.token_store import RequestTokens
from seer.rollout.trace import TraceRecord, TraceWriter
from seer.types import EngineInfo, GroupSpec, SamplingParams, WeightUpdate

logger = logging.getLogger(__name__)

OnProgress = Callable[[RolloutProgress], None]

PROGRESS_INTERVAL_S = 0.1


@dataclass(slots=True)
class _Call:
    """One call of `stream`: its groups, and where finished ones go."""

    started_s: float
    group_size: int
    finished: asyncio.Queue[int | SeerError]
    """Ids of finished groups, or what ended the call."""
    prompts: dict[int, EncodedPrompt]
    """By group id, in the prompts' order; a group leaves when it is handed over."""
    on_progress: OnProgress | None = None


class Rollout:
    """A session: instances stay up between calls. Use as an async context manager.

    >>> async with Rollout(RolloutConfig(engine=spec)) as rollout:
    ...     async for group in rollout.stream(prompts, group_size=8, sampling=sampling):
    ...         score(group)
    """

    def __init__(self, config: RolloutConfig) -> None:
        self._config = config
        self._info = config.engine.describe()
        if config.drafting.is_on and not self._info.verifies_drafts:
            allowed = f"allowed: {OFF}, as this engine ({self._info.model}) verifies no drafts"
            raise InvalidInput("drafting", config.drafting.budget, allowed)
        self._tokenizer = config.engine.tokenizer()
        self._stack = AsyncExitStack()
        self._meter = ProgressMeter()
        self._metrics = MetricsBuilder()
        self._calls: list[_Call] = []
        self._abandoned: dict[int, int] = {}
        """Size of cancelled groups whose last chunks the engines still run."""
        self._num_groups = 0
        self._shown_s = 0.0

    async def __aenter__(self) -> Self:
        """Open the site, launch the instances. Raises InvalidInput or EngineFailure."""
        async with AsyncExitStack() as stack:
            plan = self._config.plan(self._info)
            self._site = await stack.enter_async_context(self._config.site.open(plan))
            setups = [self._site.setup(i) for i in range(plan.num_instances)]
            self._fleet = Fleet(self._site, setups, self._info)
            await self._fleet.launch_all()
            stack.push_async_callback(self._fleet.close)
            config = self._config.controller_config(self._site.pool)
            self._trace: TraceWriter | None = None
            if self._config.trace_path is not None:
                file = stack.enter_context(self._config.trace_path.open("wb"))
                self._trace = TraceWriter(file, config)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            stack.push_async_callback(self._shut_down)
            self._driver = Driver(
                config,
                self._fleet,
                self._site,
                tasks,
                restart_instances=self._config.restart_instances,
                on_record=self._record,
                on_failure=self._fail,
            )
            self._growth = tasks.create_task(self._grow())
            self._stack = stack.pop_all()
        self._driver.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel what is left and close everything."""
        await self._stack.aclose()

    async def stream(
        self,
        prompts: Sequence[Prompt],
        *,
        group_size: int,
        sampling: SamplingParams,
        on_progress: OnProgress | None = None,
    ) -> AsyncGenerator[GroupResult, None]:
        """Generate `group_size` responses to each prompt; yield each group when it is complete.

        Leaving the loop early cancels the groups that are left. Raises InvalidInput before
        anything starts, EngineFailure or InstanceLost when it cannot go on, RolloutCancelled after
        `cancel()`.
        """
        call = self._submit(prompts, group_size, sampling, on_progress)
        try:
            while call.prompts:
                finished = await call.finished.get()
                if isinstance(finished, SeerError):
                    raise finished
                yield self._hand_over(call, finished)
        finally:
            self._abandon(call)

    async def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        group_size: int,
        sampling: SamplingParams,
        on_progress: OnProgress | None = None,
    ) -> list[GroupResult]:
        """All groups, in the order of the prompts. Raises as `stream` does."""
        groups = [
            group
            async for group in self.stream(
                prompts, group_size=group_size, sampling=sampling, on_progress=on_progress
            )
        ]
        return sorted(groups, key=lambda group: group.group_id)

    def cancel(self) -> None:
        """Cancel every call in progress: each raises RolloutCancelled where it is awaited."""
        self._fail(RolloutCancelled("cancelled"))

    def metrics(self) -> RolloutMetrics:
        """Figures of the session so far."""
        return self._metrics.result()

    async def update_weights(self, update: WeightUpdate) -> None:
        """Give all instances new weights; all KV is dropped.

        An instance that has died meanwhile is started again, with these weights. Raises
        EngineFailure while calls are in progress or when the weights do not fit.
        """
        if self._calls:
            raise EngineFailure("weights cannot be updated while a rollout is in progress")
        for instance_id in await self._fleet.update_weights(update):
            self._driver.notice_loss(instance_id)

    async def add_instance(self) -> int:
        """Launch one more instance, also while calls are in progress; returns its number.

        Raises EngineFailure or InvalidInput when it does not come up or does not fit the others.
        """
        instance_id = self._fleet.next_id
        await self._fleet.add(self._site.setup(instance_id))
        try:
            self._driver.join(instance_id)
        except InvalidInput:
            await self._driver.remove(instance_id)
            raise
        return instance_id

    async def remove_instance(self, instance_id: int) -> None:
        """End an instance, also while calls are in progress: its requests go on elsewhere.

        What its chunks have reported is kept; their KV is computed again. Raises InvalidInput for
        an instance that is not there, or the last one.
        """
        alive = [i for i, placed in self._fleet.placed.items() if placed.engine is not None]
        if instance_id not in self._fleet.placed or not set(alive) - {instance_id}:
            allowed = f"allowed: one of {sorted(self._fleet.placed)}, while another one runs"
            raise InvalidInput("instance_id", instance_id, allowed)
        await self._driver.remove(instance_id)
        self._site.forget(instance_id)

    # ------------------------------------------------------------------ internals

    async def _grow(self) -> None:
        """Take in further instances for as long as the site has room for them."""
        num_failures = 0
        while num_failures < RELAUNCH_TRIES and await self._site.wait_for_room():
            try:
                instance_id = await self.add_instance()
            except (EngineFailure, InvalidInput, ConnectionError) as error:
                num_failures += 1
                logger.warning("a further instance does not come up: %s", error)
            else:
                num_failures = 0
                logger.info("instance %d has joined", instance_id)

    async def _shut_down(self) -> None:
        """End every call, then every task: closed engines end what the tasks wait for."""
        self._growth.cancel()
        self.cancel()
        self._driver.shut_down()
        await self._fleet.close()

    def _submit(
        self,
        prompts: Sequence[Prompt],
        group_size: int,
        sampling: SamplingParams,
        on_progress: OnProgress | None,
    ) -> _Call:
        if group_size < 1:
            raise InvalidInput("group_size", group_size, "allowed: an integer >= 1")
        encoded = encode_prompts(prompts, self._tokenizer, self._info)
        first = self._num_groups
        specs = tuple(
            GroupSpec(
                group_id=first + i,
                group_size=group_size,
                num_prompt_tokens=len(prompt.token_ids),
                max_tokens=sampling.max_tokens,
                known_lengths=prompt.known_lengths,
                prior_tokens=prompt.prior_tokens,
            )
            for i, prompt in enumerate(encoded)
        )
        for spec, prompt in zip(specs, encoded, strict=True):
            _check(spec, prompt, self._info)
        self._num_groups += len(specs)
        call = _Call(
            started_s=self._driver.now,
            group_size=group_size,
            finished=asyncio.Queue(),
            prompts={s.group_id: p for s, p in zip(specs, encoded, strict=True)},
            on_progress=on_progress,
        )
        for spec, prompt in zip(specs, encoded, strict=True):
            self._driver.store.add_group(spec.group_id, group_size, prompt, sampling)
        self._calls.append(call)
        self._driver.handle(GroupsSubmitted(groups=specs))
        return call

    def _hand_over(self, call: _Call, group_id: int) -> GroupResult:
        """Make the result of a finished group."""
        prompt = call.prompts.pop(group_id)
        members = self._driver.store.take_group(group_id, call.group_size)
        return GroupResult(
            prompt_id=prompt.prompt_id,
            group_id=group_id,
            prompt_token_ids=prompt.token_ids,
            metadata=prompt.metadata,
            completions=[self._completion(i, r, call.started_s) for i, r in enumerate(members)],
        )

    def _completion(self, member: int, request: RequestTokens, origin: float) -> Completion:
        assert request.reason is not None  # noqa: S101 - the controller has finished it
        started = request.finished_s if request.started_s is None else request.started_s
        return Completion(
            member=member,
            output_token_ids=request.token_ids,
            text=self._tokenizer.decode(request.token_ids),
            logprobs=request.logprobs,
            finish_reason=request.reason,
            started_s=started - origin,
            finished_s=request.finished_s - origin,
        )

    def _abandon(self, call: _Call) -> None:
        """Forget a call: what is left of it is cancelled, and dropped when the engines are done."""
        if call in self._calls:
            self._calls.remove(call)
        for group_id in list(call.prompts):
            self._abandoned[group_id] = call.group_size
            del call.prompts[group_id]
            self._driver.handle(GroupCancelled(group_id=group_id))

    def _record(self, record: TraceRecord) -> None:
        """Write, count and hand on what the driver has just decided."""
        if self._trace is not None:
            self._trace.write(record)
        self._metrics.add(record)
        self._meter.add(record)
        for action in record.actions:
            if isinstance(action, FinishGroup):
                self._group_finished(action.group_id)
        self._show(record)

    def _group_finished(self, group_id: int) -> None:
        group_size = self._abandoned.pop(group_id, None)
        if group_size is not None:
            self._driver.store.take_group(group_id, group_size)
            return
        for call in self._calls:
            if group_id in call.prompts:
                call.finished.put_nowait(group_id)

    def _show(self, record: TraceRecord) -> None:
        """Call progress callbacks, ten times a second at most and once at each group's end."""
        is_end = any(isinstance(action, FinishGroup) for action in record.actions)
        if not is_end and record.t - self._shown_s < PROGRESS_INTERVAL_S:
            return
        self._shown_s = record.t
        snapshot = self._meter.snapshot(
            record.t,
            self._driver.store.num_tokens,
            self._metrics,
            self._fleet.placed,
        )
        for call in self._calls:
            if call.on_progress is not None:
                call.on_progress(snapshot)

    def _fail(self, error: SeerError) -> None:
        """End every call in progress."""
        for call in self._calls:
            call.finished.put_nowait(error)


def _check(spec: GroupSpec, prompt: EncodedPrompt, info: EngineInfo) -> None:
    """Raise InvalidInput, naming the prompt, when a request of the group could never run."""
    try:
        check_fits(spec, info)
    except InvalidInput as error:
        shown = f"prompt {prompt.prompt_id}: {error.value}"
        raise InvalidInput(error.field, shown, error.allowed) from None
