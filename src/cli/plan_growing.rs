//! What the horizon of a plan shows: how long each alternative is enough, and what it costs over the months.

use super::exit::Failure;
use super::planning::Planning;
use dryrack_plan::{
    Answer, Comparison, Lasting, Row, cheapest_throughout, horizon_header, horizon_json, horizon_rows,
    horizon_sentences, stops_being_enough, sure_end,
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

    /// How sure it is when the answer stops being enough; may be empty.
    pub fn sure_end(&self, best: Option<&Row>) -> String {
        best.map_or(String::new(), |row| sure_end(&self.lasting, row))
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
