"""Twenty prompts, eight of them above 600 tokens, that differ from their first words on (so that no prefix cache helps by chance)."""
import random

SHORT = [
    "Name three rivers of Europe and say which is the longest.",
    "A recipe for pancakes starts with",
    "Explain to a child why the sky is blue.",
    "def fibonacci(n):\n    \"\"\"Returns the n-th number.\"\"\"\n",
    "Translate into French: the cat sleeps on the old chair.",
    "The three laws of thermodynamics, in one sentence each:",
    "Dear Sir or Madam, I am writing to complain about",
    "12 + 30 = 42. 25 + 17 =",
    "Once the last train had left, the station",
    "List the planets from the sun outwards: Mercury,",
    "Warum ist der Himmel blau? Antworte kurz.",
    "SELECT name, age FROM users WHERE",
]

SUBJECTS = ["the old lighthouse keeper", "a travelling engineer", "our neighbour's dog", "the village choir", "a very patient teacher",
            "the night shift", "my grandmother", "the river", "a small company", "the youngest clerk"]
VERBS = ["remembered", "rebuilt", "painted", "counted", "lost", "measured", "described", "carried", "studied", "sold"]
OBJECTS = ["seven wooden boats", "the broken clock", "a map of the harbour", "letters from abroad", "the price of bread", "every stone of the bridge",
           "two notebooks", "the colour of the evening", "an unfinished song", "the shadow of the tower"]
ENDINGS = ["before the winter came", "without telling anyone", "for the third time", "while it rained", "and nobody asked why", "as if it were easy",
           "in a single afternoon", "because the road was closed", "with great care", "long after the others had gone"]


def story(seed, sentences):
    draw = random.Random(seed)
    lines = [f"Chapter {seed}. What follows happened in the year {1800 + 7 * seed}."]
    for number in range(sentences):
        lines.append(f"{number + 1}. {draw.choice(SUBJECTS).capitalize()} {draw.choice(VERBS)} {draw.choice(OBJECTS)} {draw.choice(ENDINGS)}.")
    lines.append("In one sentence, the chapter says that")
    return " ".join(lines)


LONG = [story(seed, 42 + seed) for seed in range(1, 9)]
PROMPTS = SHORT + LONG
