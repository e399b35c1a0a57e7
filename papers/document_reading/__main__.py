"""`python -m papers.document_reading`: reading PDF documents: QASPER, layout figures, and extraction of text and regions."""

from __future__ import annotations

from papers.command_line import paper_app
from papers.document_reading.extract import extract as extract_command
from papers.document_reading.pdf import pdf as pdf_command
from papers.document_reading.qasper_command import qasper as qasper_command
from papers.document_reading.rows import rows as rows_command
from papers.document_reading.rows import train as train_command

app = paper_app(
    "Reading PDF documents: QASPER, layout figures, and extraction of text and regions.",
    qasper=qasper_command,
    pdf=pdf_command,
    extract=extract_command,
    rows=rows_command,
    train=train_command,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.document_reading")
