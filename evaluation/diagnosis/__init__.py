"""Why answers are wrong: questions with known answers asked, failures traced to the stage that lost the answer.

`gold` reads the questions, `verdicts` says whether an answer is right and at which stage it went wrong, and confirms
that by putting right what this stage had to give. `running` does it for a file and keeps what it finds as an evaluation
run; turns are asked and played again by whoever calls it.
"""
