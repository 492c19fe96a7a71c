import gc
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dryrack
import dryrack.gym


def play(env: gymnasium.Env[Any, Any], seed: int, choice: np.random.Generator) -> tuple[list[float], dryrack.Run]:
    """One episode with possible actions drawn at random: its rewards, and its run."""
    _, info = env.reset(seed=seed)
    rewards, is_over = [], False
    while not is_over:
        # Who starts nothing although nothing else will happen ends the run.
        action = 1 + choice.choice(np.flatnonzero(info["action_mask"][1:]))
        observation, reward, is_over, _, info = env.step(action)
        assert observation in env.observation_space
        rewards.append(float(reward))
    return rewards, info["run"]


@pytest.mark.parametrize("choose", ["job", "node"])
def test_the_environment_is_one_of_gymnasium(busy: dict[str, Any], choose: str) -> None:
    with gymnasium.make("dryrack/Queue-v0", scenario=busy, choose=choose) as env:
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("choose", ["job", "node"])
def test_rewards_are_the_waiting_time_of_all_jobs(busy: dict[str, Any], choose: str) -> None:
    env = gymnasium.make("dryrack/Queue-v0", scenario=busy, choose=choose)
    rewards, run = play(env, 3, np.random.default_rng(5))
    jobs = run.jobs.drop_duplicates("job")
    assert len(jobs) == 70 and (jobs["outcome"] == "completed").all()
    assert sum(rewards) * -3600 == pytest.approx((jobs["start"] - jobs["submit"]).sum())
    # Nothing was placed where it is not safe, or refused.
    assert run.metrics["safety_broken"] == 0 and "refused" not in set(run.events["name"])
    again, _ = play(env, 3, np.random.default_rng(5))
    assert again == rewards
    env.close()


def test_gangs_are_placed_as_they_ask(busy: dict[str, Any]) -> None:
    with gymnasium.make("dryrack/Queue-v0", scenario=busy, choose="node") as env:
        _, run = play(env, 1, np.random.default_rng(0))
    gangs = run.jobs[run.jobs["job"].str.startswith("gang")]
    assert len(gangs) == 10 and all(len(set(nodes.split())) == 3 for nodes in gangs["nodes"])


def test_the_first_of_the_queue_is_fifo_without_passing(busy: dict[str, Any]) -> None:
    """An agent that starts only the first job decides as the profile `fifo` does."""
    with gymnasium.make("dryrack/Queue-v0", scenario=busy, queue=1) as env:
        _, info = env.reset(seed=1)
        is_over = False
        while not is_over:
            _, _, is_over, _, info = env.step(int(info["action_mask"][1]))
    fifo = dryrack.run(busy, profile="fifo")
    assert list(info["run"].jobs["start"]) == list(fifo.jobs["start"])


def test_an_abandoned_episode_ends_its_program(busy: dict[str, Any]) -> None:
    env = dryrack.gym.Queue(busy)
    env.reset()
    assert env._rehearsal is not None
    program = env._rehearsal._process
    assert program.poll() is None
    env.reset()
    assert program.poll() is not None
    last = env._rehearsal._process
    del env
    gc.collect()
    assert last.poll() is not None


def test_waiting_for_ever_ends_with_the_run(two_jobs: dict[str, Any]) -> None:
    with gymnasium.make("dryrack/Queue-v0", scenario=two_jobs) as env:
        env.reset(seed=1)
        _, _, is_over, _, info = env.step(0)
    assert is_over and not info["run"].ok and info["run"].jobs["start"].isna().all()


def test_what_it_cannot_place_is_said(two_jobs: dict[str, Any]) -> None:
    two_jobs["jobs"][0]["gpus"] = "50%"
    two_jobs["expect"] = []
    env = dryrack.gym.Queue(two_jobs)
    with pytest.raises(dryrack.DryrackError, match="takes a part of a GPU"):
        env.reset()
    env.close()
    with pytest.raises(dryrack.InvalidInput, match="did you mean `jobs`"):
        dryrack.gym.Queue({**two_jobs, "jbos": []})
