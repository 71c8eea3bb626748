"""What a chunk in vLLM has generated, and what it cost."""

from seer.engines.serving.stopping import StopCheck
from seer.engines.vllm.chunk_flight import ChunkFlight, Drafted
from seer.types import Chunk, ChunkEnd, ChunkStats, InstanceLoad, RequestId, SamplingParams

LOAD = InstanceLoad(free_kv_tokens=64, num_running=0, num_waiting=0)


def _flight(num_prompt: int = 40, num_output: int = 0, stop: tuple[str, ...] = ()) -> ChunkFlight:
    sampling = SamplingParams(stop=stop)
    chunk = Chunk(
        request_id=RequestId(0, 0),
        chunk_index=3,
        sampling_group=0,
        prompt_token_ids=[65] * num_prompt,
        output_token_ids=[66] * num_output,
        sampling=sampling,
        max_tokens=8,
        keep_kv=True,
    )

    def decode(token_ids: object) -> str:
        return "".join(map(chr, token_ids))  # type: ignore[call-overload]

    return ChunkFlight(chunk=chunk, stop=StopCheck(sampling, (), decode) if stop else None)


def _stats(flight: ChunkFlight) -> ChunkStats:
    return flight.result(ChunkEnd.LENGTH, LOAD).stats


def test_reports_are_joined() -> None:
    """The result has all tokens; progress those that are new."""
    flight = _flight()
    flight.take([1, 2], [-0.1, -0.2])
    flight.take([3], [-0.3])
    assert flight.progress_since(2).token_ids == [3]
    result = flight.result(ChunkEnd.LENGTH, LOAD)
    assert (result.token_ids, result.logprobs) == ([1, 2, 3], [-0.1, -0.2, -0.3])
    assert (result.chunk_index, result.load) == (3, LOAD)


def test_stop_string_across_chunks_and_reports() -> None:
    """A string that began in an earlier chunk ends the response; what follows it is dropped."""
    flight = _flight(num_output=1, stop=("BCD",))  # the earlier output is "B"
    assert not flight.take([67], [0.0])
    assert flight.take([68, 69], [0.0, 0.0])
    assert flight.token_ids == [67, 68]


def test_a_stop_string_in_the_prompt_is_none() -> None:
    """Only output is searched."""
    flight = _flight(stop=("AB",))
    assert not flight.take([66], [0.0])


def test_first_chunk_computes_what_was_not_cached() -> None:
    """Of 40 prompt tokens 39 are prefilled, less those that vLLM had."""
    flight = _flight()
    flight.take([1], [0.0])
    assert _stats(flight).num_prompt_prefilled == 39
    flight.num_cached = 32
    assert _stats(flight).num_prompt_prefilled == 7


def test_continuation_counts_prompt_and_output() -> None:
    """Of 40 + 24 tokens 63 have KV: what is missing is the prompt's first, then the output's."""
    flight = _flight(num_output=24)
    flight.take([1], [0.0])
    assert (_stats(flight).num_prompt_prefilled, _stats(flight).num_output_prefilled) == (40, 23)
    flight.num_cached = 32
    assert (_stats(flight).num_prompt_prefilled, _stats(flight).num_output_prefilled) == (8, 23)
    flight.num_cached = 63
    assert (_stats(flight).num_prompt_prefilled, _stats(flight).num_output_prefilled) == (0, 0)


def test_aborted_before_it_ran() -> None:
    """What never ran has computed nothing."""
    stats = _flight().result(ChunkEnd.ABORTED, LOAD).stats
    assert (stats.num_prompt_prefilled, stats.num_decode_steps) == (0, 0)


def test_drafts_by_position() -> None:
    """Two drafts of three and one guesses, two and none of them right."""
    flight = _flight()
    flight.take([1, 2, 3, 4], [0.0] * 4)
    flight.drafts = Drafted(drafted=[3, 1], accepted=[2, 0])
    stats = _stats(flight)
    assert (stats.num_drafted, stats.num_accepted, stats.num_decode_steps) == (4, 2, 2)
    assert stats.drafted_by_position == (2, 1, 1)
    assert stats.accepted_by_position == (1, 1, 0)
