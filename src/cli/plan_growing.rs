//! What the horizon of a plan shows: how long each alternative is enough, and what it costs over the months.

use super::exit::Failure;
use super::planning::Planning;
use dryrack_plan::{
    Answer, BreakResult, Comparison, Lasting, Row, cheapest_throughout, horizon_header, horizon_json, horizon_rows,
    horizon_sentences, month_at_odds, stops_being_enough, sure_end,
};
use dryrack_report::PlanGrowth;
use dryrack_scenario::Objective;

/// The horizon of a plan that was run; empty without one.
pub(super) struct Growing {
    lasting: Vec<Lasting>,
    /// The alternative that is cheapest over the horizon, if it is another one than the answer.
    throughout: Option<(Row, String)>,
    pub growth: Option<PlanGrowth>,
}

impl Growing {
    pub fn run(planning: &Planning, comparison: &Comparison, best: Option<&Row>) -> Result<Growing, Failure> {
        let plan = &planning.plan;
        let Some(horizon) = &plan.horizon else {
            return Ok(Growing { lasting: Vec::new(), throughout: None, growth: None });
        };
        // Alternatives under other assumptions are no choices.
        let choices = comparison.of_worst_case(plan, plan.minimize.unwrap_or(Objective::Gpus));
        let lasting = planning.horizon(&choices.rows)?;
        let throughout = cheapest_throughout(plan, horizon, &lasting);
        let growth = PlanGrowth {
            sentences: horizon_sentences(plan, horizon, &choices, &lasting),
            header: horizon_header(plan),
            rows: horizon_rows(plan, horizon, &lasting),
        };
        let throughout = throughout.filter(|(row, _)| best.is_some_and(|best| best.cell != row.cell));
        Ok(Growing { lasting, throughout, growth: Some(growth) })
    }

    /// Adds to the answer when it stops being enough.
    pub fn add_end(&self, planning: &Planning, best: Option<&Row>, answer: &mut Answer) {
        if let (Some(row), Some(horizon)) = (best, &planning.plan.horizon)
            && let Some(end) = stops_being_enough((&planning.plan, horizon), &self.lasting, row)
        {
            answer.with_end(&end);
        }
    }

    /// With which load the answer stops being enough, and how sure this is; may be empty.
    pub fn sure_end(&self, planning: &Planning, best: Option<&Row>) -> String {
        let horizon = planning.plan.horizon.as_ref();
        best.zip(horizon).map_or(String::new(), |(row, horizon)| sure_end(horizon, &self.lasting, row))
    }

    /// How the answer would break. If a month of the horizon gives another result than the run with more load, this says so.
    pub fn breaks(&self, planning: &Planning, best: Option<&Row>) -> Result<Vec<BreakResult>, Failure> {
        let plan = &planning.plan;
        let Some(row) = best else { return Ok(Vec::new()) };
        let mut breaks = planning.breaks(row)?;
        if let (Some(horizon), Some(lasting)) = (&plan.horizon, self.lasting.iter().find(|one| one.cell == row.cell)) {
            let loaded = plan.load(row.cell, plan.seeds.first().copied(), &planning.base);
            let load = loaded.map_err(|faults| Failure::Input(faults.to_string()))?.load;
            breaks.iter_mut().for_each(|found| found.at_odds = month_at_odds((horizon, load), lasting, found));
        }
        Ok(breaks)
    }

    /// Begins the answer with the alternative that is cheapest over the horizon, if it is another one.
    pub fn begin(&self, planning: &Planning, answer: &mut Answer) {
        if let (Some(horizon), Some(throughout)) = (&planning.plan.horizon, &self.throughout) {
            answer.with_cheapest_throughout(&planning.plan, horizon, throughout);
        }
    }

    pub fn throughout(&self) -> Option<&Row> {
        self.throughout.as_ref().map(|(row, _)| row)
    }

    /// The horizon in `plan.json`.
    pub fn json(&self, planning: &Planning, comparison: &Comparison) -> Option<serde_json::Value> {
        let (horizon, growth) = (planning.plan.horizon.as_ref()?, self.growth.as_ref()?);
        Some(horizon_json((&planning.plan, horizon), comparison, &self.lasting, &growth.sentences))
    }
}
