"""The knowledge for a decision on a request: the state, answers about texts, limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tms.core.limits import SchemaLimits
from tms.core.services.schemas import NUMBER_MAX
from tms.registry.questions.questions import A, Findings, NoSchema, Question
from tms.registry.state.ids import IdsWanted
from tms.registry.state.readers import EVERYTHING, SchemaReader
from tms.registry.state.refusal import INVALID_SCHEMA, TOO_LARGE, RegistryError
from tms.registry.state.registry_state import State


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The knowledge at one moment."""

    state: State
    findings: Findings = field(default_factory=Findings)
    limits: SchemaLimits = field(default_factory=SchemaLimits)
    batches: Mapping[str, range] | None = None
    """By context, the ids that this server may assign; None for any."""
    reader: SchemaReader = EVERYTHING
    """The caller, which finds no schema by texts that it may not read."""

    def answer_to(self, question: Question, expected: type[A]) -> A:
        """Return an answer about a schema. Raises `Unanswered`, `RegistryError` (42201)."""
        answer = self.findings.answer_to(question, expected)
        if isinstance(answer, NoSchema):
            raise RegistryError(INVALID_SCHEMA, reason=answer.reason)
        return answer

    def next_id(self, context: str) -> int:
        """Return the id for a new schema of a context.

        Raises `IdsWanted`, `RegistryError` (42209) if all ids are used.
        """
        space = self.state.space(context)
        next_id = following = space.next_id
        if self.batches is not None:
            batch = self.batches.get(context, range(0))
            next_id = space.free_from(max(following, batch.start))
            if next_id not in batch and following <= NUMBER_MAX:
                raise IdsWanted(context, following)
        if next_id > NUMBER_MAX:
            raise RegistryError(TOO_LARGE, reason=f"The context {context} has no more ids")
        return next_id
