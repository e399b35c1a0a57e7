"""Why answers are wrong: questions with known answers asked, failures traced to the stage that lost the answer.

`gold` reads the questions. `running` says whether an answer is right and at which stage it went wrong, confirms that
by putting right what this stage had to give, and keeps what it finds as an evaluation run; turns are asked and played
again by whoever calls it.
"""
