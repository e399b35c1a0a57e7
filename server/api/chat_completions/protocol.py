"""The shapes of OpenAI's chat completions, as far as they mean something here; what is unknown is tolerated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from index.query import Where
from server.chat import CitationEvent, Evidence, RewriteEvent, SupportEvent
from server.turn.events import Alternative, AnswerKind


class _Tolerant(BaseModel):
    model_config = ConfigDict(extra="allow")


class TextPart(_Tolerant):
    """A piece of a message's text."""

    type: Literal["text", "input_text"]
    text: str


class RefusalPart(_Tolerant):
    """A piece of an earlier refusal."""

    type: Literal["refusal"]
    refusal: str


class ChatMessage(_Tolerant):
    """A message. System and developer messages, and those of tools, are accepted and not followed."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] | None = None

    @property
    def text(self) -> str:
        """The message as plain text."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in self.content)


class StreamOptions(_Tolerant):
    """What a stream carries beside the answer."""

    include_usage: bool = Field(default=False, description="End with a chunk that tells the tokens used.")


class Options(BaseModel):
    """What OpenAI's request has no field for."""

    model_config = ConfigDict(extra="forbid")

    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")
    where: Where | None = Field(
        default=None, description="Only passages whose metadata equals these values, or is one of a list of values."
    )
    model: str = Field(default="", description="One of `llm.choices` that is to answer; empty: the usual model.")
    split_questions: bool | None = Field(default=None, description="Overrides the setting answer.split_questions.")


class CompletionRequest(_Tolerant):
    """A conversation that ends with a question. Fields that mean nothing here, such as `tools`, are ignored."""

    model: str = Field(description="The collection to answer from.")
    messages: list[ChatMessage] = Field(min_length=1, description="The conversation, oldest first, the question last.")
    stream: bool | None = Field(default=False, description="Answer as server-sent events.")
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1, description="Longest answer; may only lower the server's limit.")
    max_completion_tokens: int | None = Field(default=None, ge=1, description="The newer name of `max_tokens`.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="Checked; the server's own is used.")
    top_p: float | None = Field(default=None, ge=0, le=1, description="Checked; the server's own is used.")
    n: Literal[1] | None = Field(default=1, description="One answer is given.")
    anaphora: Options | None = None


class Details(BaseModel):
    """What OpenAI's response has no field for."""

    turn_id: str = Field(description="Names the turn for feedback and traces.")
    status: Literal["answered", "quoted", "refused"]
    citations: list[CitationEvent]
    rewrite: RewriteEvent | None
    evidence: list[Evidence]
    support: list[SupportEvent]
    dropped_citations: int
    seconds: dict[str, float]
    warning: str
    alternatives: list[Alternative] = Field(description="What may be meant, where the answer is a question back.")
    answerable: float | None = Field(description="Calibrated chance that the passages answer the question.")
    answer_kind: AnswerKind | None = Field(description="As in the event `done` of a turn.")


class AssistantMessage(BaseModel):
    """The answer. `refusal` repeats it where the documents did not answer the question."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: str | None = None


class Choice(BaseModel):
    """The only answer there is."""

    index: Literal[0] = 0
    message: AssistantMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class CompletionUsage(BaseModel):
    """Tokens as the model counted them; 0 where no model was asked."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage
    anaphora: Details
