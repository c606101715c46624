# SPDX-License-Identifier: Apache-2.0
"""
The architecture of each model as an SVG beside this file: python docs/pictures/architectures.py

Boxes carry their own colour and white text; what stands outside them has a mid-tone, so that a picture reads on a light and on a
dark page.
"""

from html import escape
from pathlib import Path


COLOURS = {"given": "#5a6675", "stock": "#7b5ea7", "new": "#1f6fb2", "out": "#2c7a57"}
LEGEND = {"given": "input", "stock": "pretrained or standard", "new": "what the method adds", "out": "output"}
LINE = "#84898f"


class Drawing:
    """Boxes and arrows on a canvas; sizes in pixels."""

    def __init__(self, title: str, width: int, height: int, legend: dict[str, str] = LEGEND):
        self.title, self.width, self.height, self.legend = title, width, height, legend
        self.parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, kind: str, *lines: str) -> None:
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{COLOURS[kind]}"/>')
        first = y + height / 2 - 8.5 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            self.text(x + width // 2, int(first + 17 * number), line, "#ffffff")

    def text(self, x: int, y: int, line: str, colour: str = LINE, anchor: str = "middle") -> None:
        self.parts.append(f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{escape(line)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        way = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(
            f'<polyline points="{way}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        x = 10
        for kind, meaning in self.legend.items():
            self.parts.append(
                f'<rect x="{x}" y="{self.height - 22}" width="14" height="14" rx="3" fill="{COLOURS[kind]}"/>'
            )
            self.text(x + 20, self.height - 10, meaning, anchor="start")
            x += 50 + 8 * len(meaning)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="13"><title>{escape(self.title)}</title>'
            f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{LINE}"/></marker></defs>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def label_aware() -> Drawing:
    d = Drawing("Label-aware attention: each label attends to the tokens by itself", 860, 300)
    d.box(10, 30, 120, 56, "given", "text", "L tokens")
    d.box(170, 30, 120, 56, "stock", "encoder", "H (L × d)")
    d.box(10, 130, 120, 56, "given", "label names", "C labels")
    d.box(170, 130, 120, 56, "new", "label vectors", "e (C × d′)")
    d.box(340, 80, 140, 56, "new", "scores e W Hᵀ", "(C × L)")
    d.box(520, 80, 140, 56, "new", "α: softmax over", "the real tokens")
    d.box(520, 180, 140, 56, "new", "h̃ = α H", "(C × d)")
    d.box(340, 10, 140, 40, "stock", "sentence vector s")
    d.box(700, 80, 150, 56, "new", "one head for all", "labels: [h̃ᵢ ‖ s]")
    d.box(700, 180, 150, 56, "out", "σ(logitᵢ) > its", "own threshold?")
    d.arrow((130, 58), (170, 58))
    d.arrow((130, 158), (170, 158))
    d.arrow((290, 70), (315, 70), (315, 100), (340, 100))
    d.arrow((290, 158), (315, 158), (315, 118), (340, 118))
    d.arrow((290, 42), (340, 30))
    d.arrow((480, 108), (520, 108))
    d.arrow((590, 136), (590, 180))
    d.arrow((230, 86), (230, 108), (302, 108), (302, 208), (520, 208))
    d.text(400, 201, "H")
    d.arrow((480, 30), (775, 30), (775, 80))
    d.arrow((660, 208), (680, 208), (680, 108), (700, 108))
    d.arrow((775, 136), (775, 180))
    return d


def emotion_specific_attention() -> Drawing:
    d = Drawing("RoBERTa with emotion-specific attention", 860, 230)
    d.box(10, 30, 100, 56, "given", "text")
    d.box(140, 30, 120, 56, "new", "TF-IDF gate", "(optional)")
    d.box(290, 30, 110, 56, "stock", "RoBERTa", "E (L × d)")
    d.box(430, 30, 110, 56, "new", "E + P")
    d.box(570, 30, 130, 56, "new", "multi-head self-", "attention: Z")
    d.box(730, 30, 120, 56, "new", "Z ⊙ S + P")
    d.box(430, 120, 270, 40, "new", "P: learned positions (L × d)")
    d.box(730, 120, 120, 40, "stock", "mean of tokens")
    d.box(290, 120, 110, 40, "out", "6 emotions")
    d.box(140, 120, 120, 40, "stock", "dropout, linear")
    for x in (110, 260, 400, 540, 700):
        d.arrow((x, 58), (x + 30, 58))
    d.arrow((485, 120), (485, 86))
    d.arrow((700, 140), (715, 140), (715, 98), (760, 98), (760, 86))
    d.arrow((790, 86), (790, 120))
    d.arrow((790, 160), (790, 182), (200, 182), (200, 160))
    d.arrow((260, 140), (290, 140))
    return d


def dialogue() -> Drawing:
    d = Drawing("Emotion in dialogue: one emotion for each turn", 860, 310)
    turns = ("Ana: I got the job!", "Ben: No way!", "Ana: Why are you crying?")
    for number, turn in enumerate(turns):
        y = 20 + 80 * number
        d.box(10, y, 180, 52, "given", turn)
        d.box(220, y, 120, 52, "stock", "sentence", "encoder")
        d.arrow((190, y + 26), (220, y + 26))
        d.arrow((340, y + 26), (370, y + 26))
        d.arrow((470, y + 26), (510, y + 26))
        d.arrow((650, y + 26), (680, y + 26))
        d.box(680, y, 170, 52, "out", "linear: emotion", f"of turn {number + 1}")
    d.box(370, 20, 100, 212, "stock", "BiLSTM", "over the", "turns")
    d.box(510, 20, 140, 212, "new", "multi-head", "self-attention", "over the turns,", "residual,", "LayerNorm")
    d.text(430, 264, "Positional encoding is optional: before the BiLSTM, or before the attention.")
    return d


def modulated_norms() -> Drawing:
    d = Drawing("Encoder-decoder whose layer norms follow an emotion", 860, 380)
    d.box(10, 30, 150, 48, "given", "context")
    d.box(10, 130, 150, 56, "given", "emotion weights c", "joy 0.7, surprise 0.3")
    d.box(10, 242, 150, 48, "given", "reply so far")
    d.box(200, 130, 190, 56, "new", "two small MLPs per norm:", "γ(c) and β(c)")
    for y, name in ((30, "encoder layers"), (242, "decoder layers")):
        d.box(200, y, 110, 48, "stock", "sub-layer")
        d.box(340, y, 170, 48, "new", "γ(c) · norm(x) + β(c)")
        d.box(540, y, 110, 48, "stock", "sub-layer")
        d.text(595, y - 10 if y < 100 else y + 68, f"{name}, repeated")
        d.arrow((160, y + 24), (200, y + 24))
        d.arrow((310, y + 24), (340, y + 24))
        d.arrow((510, y + 24), (540, y + 24))
    d.arrow((160, 158), (200, 158))
    d.arrow((390, 150), (425, 150), (425, 78))
    d.arrow((390, 166), (425, 166), (425, 242))
    d.arrow((650, 54), (700, 54), (700, 160), (595, 160), (595, 242))
    d.text(700, 182, "cross-attention to all states")
    d.box(700, 242, 150, 48, "out", "next token")
    d.arrow((650, 266), (700, 266))
    return d


def context_guided() -> Drawing:
    d = Drawing("One layer of context-guided BERT", 860, 330)
    d.box(10, 30, 110, 52, "given", "X (L × d)")
    d.box(10, 190, 110, 62, "given", "context: target", "and aspect", "→ E_c (d)")
    d.box(160, 20, 120, 40, "stock", "values v")
    d.box(160, 75, 120, 40, "stock", "queries, keys")
    d.box(160, 195, 160, 52, "new", "C = W_c [E_c ‖ X]", "+ b + E_c")
    d.box(360, 195, 130, 52, "new", "ĉ_Q = U_Q C", "ĉ_K = U_K C")
    d.box(360, 115, 130, 52, "new", "gates λ_Q, λ_K", "of q, k and ĉ")
    d.box(530, 105, 150, 72, "new", "q̂ = (1−λ)q + λĉ_Q", "k̂ = (1−λ)k + λĉ_K")
    d.box(720, 105, 130, 72, "stock", "softmax(q̂k̂ᵀ/√d_h)", "as in BERT")
    d.box(720, 20, 130, 40, "out", "attention · v")
    d.arrow((120, 45), (160, 40))
    d.arrow((120, 65), (160, 95))
    d.arrow((65, 82), (65, 150), (220, 150), (220, 195))
    d.arrow((120, 221), (160, 221))
    d.arrow((320, 221), (360, 221))
    d.arrow((425, 195), (425, 167))
    d.arrow((280, 95), (425, 95), (425, 115))
    d.arrow((280, 88), (605, 88), (605, 105))
    d.arrow((490, 141), (530, 141))
    d.arrow((490, 221), (605, 221), (605, 177))
    d.arrow((680, 141), (720, 141))
    d.arrow((785, 105), (785, 60))
    d.arrow((280, 40), (720, 40))
    d.text(
        430, 280, "The classifier reads [CLS] after the last layer: none, positive or negative towards this aspect."
    )
    return d


def quasi_attention() -> Drawing:
    d = Drawing("One layer of quasi-attention BERT", 860, 350)
    d.box(10, 30, 110, 52, "given", "X (L × d)")
    d.box(10, 205, 110, 62, "given", "context: target", "and aspect", "→ E_c (d)")
    d.box(160, 20, 120, 40, "stock", "values v")
    d.box(160, 85, 120, 40, "stock", "queries, keys")
    d.box(160, 210, 150, 52, "new", "C = W_c [E_c ‖ X]", "+ b + E_c")
    d.box(340, 210, 130, 52, "new", "c_Q = Z_Q C", "c_K = Z_K C")
    d.box(510, 80, 160, 50, "stock", "A_self, in [0, 1]:", "softmax(qkᵀ/√d_h)")
    d.box(510, 211, 160, 50, "new", "A_quasi, in [0, 1]:", "σ(c_Q c_Kᵀ/√d_h)")
    d.box(510, 145, 160, 50, "new", "λ_A = 1 − (λ_Q + λ_K),", "in [−1, 1]")
    d.box(710, 135, 140, 70, "new", "Â = A_self +", "λ_A · A_quasi", "may be negative")
    d.box(720, 20, 120, 40, "out", "Â · v")
    d.arrow((120, 45), (160, 40))
    d.arrow((120, 65), (160, 105))
    d.arrow((65, 82), (65, 165), (230, 165), (230, 210))
    d.arrow((120, 236), (160, 236))
    d.arrow((310, 236), (340, 236))
    d.arrow((280, 105), (510, 105))
    d.arrow((440, 105), (440, 160), (510, 160))
    d.arrow((470, 236), (510, 236))
    d.arrow((440, 210), (440, 180), (510, 180))
    d.arrow((670, 105), (690, 105), (690, 155), (710, 155))
    d.arrow((670, 170), (710, 170))
    d.arrow((670, 236), (690, 236), (690, 185), (710, 185))
    d.arrow((780, 135), (780, 60))
    d.arrow((280, 40), (720, 40))
    d.text(
        430, 300, "Ordinary attention can only add. This one can subtract a token that does not belong to the aspect."
    )
    return d


DRAWINGS = (label_aware, emotion_specific_attention, dialogue, modulated_norms, context_guided, quasi_attention)

if __name__ == "__main__":
    for draw in DRAWINGS:
        Path(__file__).with_name(f"{draw.__name__}.svg").write_text(draw().svg(), encoding="utf-8")
