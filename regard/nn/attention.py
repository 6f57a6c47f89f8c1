"""Attention: compare a query with every key, and take the mean of the values weighted by how well they fit.

Score, heads and projections are independent choices. There are two paths with the same result: the fused kernel (where
the score is a product), and the explicit one, which makes the weights; it is taken when somebody looks (`nn.sites`), or
when there is no fused kernel. The fused kernel is torch's, or in training a native one (`regard.kernels`) that reads
projections as they lie. No hidden state is kept between calls: keys are prepared once and handed in.

Shapes: B rows, Q queries, N keys, H heads, G key heads (each serves H / G heads), D width, E width of a head.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels import attention as native
from regard.kernels import search
from regard.kernels.draws import generator
from regard.nn.dropout import dropout
from regard.nn.linear import mapped
from regard.nn.plain import is_plain
from regard.nn.relations import Relations, RelativeTerms, turn
from regard.nn.scores import AdditiveScore, BilinearScore, DotScore, Score, ScoreName, weighted
from regard.nn.sites import Site, visit, watched

Projections = Literal["learned", "none", "split"]


@dataclass(frozen=True, slots=True)
class Keys:
    """What an attention keeps of the attended states."""

    keys: Tensor  # (B, G, N, ·)
    values: Tensor  # (B, G, N, E)
    joined: Tensor | None = None  # (B, N, 2 · G · E): both as they were projected, where they are nothing else


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last axis among the permitted; a row with nothing permitted becomes all zeros."""
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


class Attention(nn.Module):
    """softmax(score(q, k)) v in each head.

    `projections`: `learned` are those of Vaswani et al. 2017, section 3.2.2: q = x W_q, k = m W_k, v = m W_v, and all
    heads together times W_o. `none` compares the states themselves: q = x, k = v = m. `split` takes the first half of
    each memory state as its key and the second as its value (key-value attention, Daniluk et al. 2017, equation 7).
    Heads are equal shares of q, k and v. With fewer `key_heads` than heads, several heads share a key and a value
    (Ainslie et al. 2023).

    `width` is that of the learned projections, or the inner width of the additive score without them. Learned
    projections may have no `bias`, and heads of another `head_width` than an equal share of `width` (T5 has both).
    """

    def __init__(
        self,
        *,
        query_width: int,
        memory_width: int,
        site: Site,
        width: int | None = None,
        score: ScoreName = "scaled_dot",
        projections: Projections = "learned",
        heads: int = 1,
        key_heads: int | None = None,
        head_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        relative: RelativeTerms | None = None,
    ) -> None:
        super().__init__()
        width = query_width if width is None else width
        self.heads, self.key_heads = heads, heads if key_heads is None else key_heads
        self.site = site
        self.dropout = dropout
        self.projections: Projections = projections
        if self.heads % self.key_heads:
            raise ValueError(f"{self.key_heads} key heads cannot serve {self.heads} heads in equal shares")
        each = f"{heads} heads"
        if projections == "learned":
            of_query = of_key = _share(width, heads, each) if head_width is None else head_width
            self.query: nn.Linear | None = nn.Linear(query_width, of_query * heads, bias=bias)
            self.key_value: nn.Linear | None = nn.Linear(memory_width, 2 * of_query * self.key_heads, bias=bias)
            self.output: nn.Linear | None = nn.Linear(of_query * heads, width, bias=bias)
            for projection in (self.query, self.key_value, self.output):
                nn.init.xavier_uniform_(projection.weight)
                if projection.bias is not None:
                    nn.init.zeros_(projection.bias)
        else:
            self.query = self.key_value = self.output = None
            halves = _share(memory_width, 2, "key and value") if projections == "split" else memory_width
            of_query = _share(query_width, heads, each)
            of_key = _share(halves, self.key_heads, f"{self.key_heads} key heads")
        self.context_width = of_key * heads if self.output is None else width
        inner = _share(width, heads, each) if head_width is None else head_width
        self.score = _score(score, heads, self.key_heads, of_query, of_key, inner)
        if relative is not None and self.score.scale is None:
            raise ValueError(f"relative positions need a score that is a product, and {score} is none")
        self.relative = relative

    @property
    def apart(self) -> bool:
        """Whether it must know which keys are those of one row, or has no fused kernel to look at those of several."""
        return self.relative is not None or self.score.scale is None

    def prepare(self, states: Tensor, relations: Relations | None = None) -> Keys:
        """Keys and values of states (B, N, memory width), made once for any number of queries."""
        turns = None if relations is None else relations.turns
        joined = None
        if self.key_value is not None:
            joined = mapped(self.key_value, states)  # (B, N, 2 · G · E)
            keys, values = joined.chunk(2, dim=-1)
        elif self.projections == "split":
            keys, values = states.chunk(2, dim=-1)
        else:
            keys = values = states
        keys = self.score.keys(_heads(keys, self.key_heads))
        if turns is not None:
            keys = turn(keys, turns)
        if turns is not None or type(self.score) is not DotScore:
            joined = None
        return Keys(keys=keys, values=_heads(values, self.key_heads), joined=joined)

    def attend(
        self,
        queries: Tensor,
        keys: Keys,
        mask: Tensor | None,
        *,
        causal: bool = False,
        relations: Relations | None = None,
    ) -> Tensor:
        """Context of queries (B, Q, query width) → (B, Q, context width).

        `mask` is broadcast to (B, H, Q, N), True where a key may be looked at; `causal` lets query i see keys ≤ i.
        """
        context = self.look(queries, keys, mask, causal=causal, relations=relations)
        return context if self.output is None else self.output(context)

    def look_within(
        self, states: Tensor, mask: Tensor | None, *, causal: bool = False, relations: Relations | None = None
    ) -> Tensor:
        """What `look` gives for states (B, N, D) that look at each other."""
        context = self._native_within(states, mask, causal, relations)
        if context is not None:
            return context
        return self.look(states, self.prepare(states, relations), mask, causal=causal, relations=relations)

    def look(
        self,
        queries: Tensor,
        keys: Keys,
        mask: Tensor | None,
        *,
        causal: bool = False,
        relations: Relations | None = None,
    ) -> Tensor:
        """The context before all heads are projected together: (B, Q, H · E)."""
        projected = queries if self.query is None else mapped(self.query, queries)
        context = self._native(projected, keys, mask, causal, relations)
        if context is None and not causal and relations is None:
            context = self._compared(projected, keys, mask)
        if context is not None:
            return context
        query = _heads(projected, self.heads)  # (B, H, Q, E)
        bias = None
        if relations is not None:
            bias = relations.bias
            query = query if relations.turns is None else turn(query, relations.turns)
        rate = self.dropout if self.training else 0.0
        fused = self.score.scale is not None and self.relative is None and not watched(self.site)
        fused = fused and not (rate and generator())  # torch's kernel draws from its own generator alone
        if causal and (not fused or mask is not None or bias is not None):  # `is_causal` or a mask, not both
            mask, causal = _past(query, keys, mask), False
        if fused:
            context = functional.scaled_dot_product_attention(
                query,
                keys.keys,
                keys.values,
                attn_mask=_added(mask, bias),
                dropout_p=rate,
                is_causal=causal,
                scale=self.score.scale,
                enable_gqa=self.heads != self.key_heads,
            )
        else:
            context = self.explicit(query, keys, mask, relations)
        return context.transpose(1, 2).flatten(2)

    def _native(
        self, query: Tensor, keys: Keys, mask: Tensor | None, causal: bool, relations: Relations | None
    ) -> Tensor | None:
        """The context of projected queries (B, Q, H · E) in all heads, where the native kernel is for them."""
        how = self.natively(causal, relations)
        if how is None or keys.joined is None or not native.attends(query, keys.joined, mask, how):
            return None
        return native.attention(query, keys.joined, mask, how)

    def _compared(self, query: Tensor, keys: Keys, mask: Tensor | None) -> Tensor | None:
        """The context of projected queries (B, Q, E), where the native kernel of additive attention is for them."""
        score = self.score
        if type(score) is not AdditiveScore or self.heads > 1 or watched(self.site):
            return None
        key, value, energy = keys.keys[:, 0], keys.values[:, 0], score.energy[0]
        if (self.training and self.dropout) or not search.compares(len(query), key, value, energy, mask):
            return None
        return search.compared(score.mapped(query), key, value, energy, mask)

    def _native_within(
        self, states: Tensor, mask: Tensor | None, causal: bool, relations: Relations | None
    ) -> Tensor | None:
        """The context of states that look at each other, where the native kernel is for them."""
        how = self.natively(causal, relations)
        if how is None or self.query is None or self.key_value is None or self.query.bias is None:
            return None
        if not (is_plain(self.query, nn.Linear) and is_plain(self.key_value, nn.Linear)):
            return None
        query, joined = ((one.weight, one.bias) for one in (self.query, self.key_value))
        if not native.attends_within(states, query, joined, mask, how):
            return None
        return native.attention_within(states, query, joined, mask, how)

    def natively(self, causal: bool, relations: Relations | None) -> native.Heads | None:
        """How the native kernel is to attend, where it knows the score and nobody looks."""
        if type(self.score) is not DotScore or relations is not None or self.relative is not None:
            return None
        if not self.training or self.dropout or watched(self.site):
            return None
        return native.Heads(heads=self.heads, key_heads=self.key_heads, scale=self.score.scale, causal=causal)

    def explicit(self, query: Tensor, keys: Keys, mask: Tensor | None, relations: Relations | None) -> Tensor:
        """The same context, with the weights made and shown to whoever looks."""
        scores = self.score(query, keys.keys)  # (B, H, Q, N)
        distances = None if relations is None else relations.distances
        if relations is not None and relations.bias is not None:
            scores = scores + relations.bias
        if self.relative is not None and self.score.scale is not None:
            assert distances is not None, "relative positions need to know the distances"
            scores = scores + self.relative.scores(query, distances) * self.score.scale
        weights = visit(self.site, masked_softmax(scores, mask))
        weights = dropout(weights, self.dropout, self.training)
        context = weighted(weights, keys.values)
        if self.relative is not None and distances is not None:
            context = context + self.relative.context(weights, distances)
        return context


def is_mean(attention: object) -> bool:
    """Whether an attention gives weighted means of whole values: then maps of values can come before or after it."""
    if not isinstance(attention, Attention):
        return False
    return attention.heads == 1 and attention.output is None and attention.relative is None


def additive_attention(*, query_width: int, memory_width: int, width: int, site: Site) -> Attention:
    """Attention as Bahdanau et al. 2015, A.1.2, have it: additive, one head; the values are the states themselves."""
    return Attention(
        query_width=query_width, memory_width=memory_width, width=width, score="additive", projections="none", site=site
    )


def _score(name: ScoreName, heads: int, key_heads: int, of_query: int, of_key: int, inner: int) -> Score:
    """A score for heads with queries and keys of these widths."""
    match name:
        case "bilinear":
            return BilinearScore(key_heads=key_heads, query_width=of_query, key_width=of_key)
        case "additive":
            return AdditiveScore(heads=heads, key_heads=key_heads, query_width=of_query, key_width=of_key, inner=inner)
        case "dot" | "scaled_dot":
            if of_query != of_key:
                raise ValueError(
                    f"a {name} score needs queries and keys of one width, but each head has {of_query} and {of_key}; "
                    "take learned projections, or a bilinear or additive score"
                )
            return DotScore(scale=1.0 if name == "dot" else 1 / math.sqrt(of_key))


def _share(width: int, parts: int, name: str) -> int:
    if width % parts:
        raise ValueError(f"width {width} cannot be split into {name}")
    return width // parts


def _heads(states: Tensor, heads: int) -> Tensor:
    """(B, N, H · E) → (B, H, N, E)."""
    rows, items, width = states.shape
    return states.view(rows, items, heads, width // heads).transpose(1, 2)


def _past(query: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
    """What `mask` permits of keys j ≤ i for query i: broadcast to (B, H, Q, N)."""
    past = torch.ones(query.size(-2), keys.keys.size(-2), dtype=torch.bool, device=query.device).tril()
    return past if mask is None else mask & past


def _added(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Mask and bias as the fused kernel takes them: what is not permitted has a bias of -∞."""
    if bias is None:
        return mask
    if mask is None:
        return bias if bias.dim() == 4 else bias.unsqueeze(0)
    return bias.masked_fill(~mask, -math.inf)
