//! Answers the owner of an account who requests the advisor's pages below the account's path.

use crate::advisor;
use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;
use lazurite_protocol::auth::Caller;

pub fn answer(call: &mut Call<'_, '_>) -> Step {
    let context = &call.context;
    let page = advisor::Page::of(&context.method, &context.resource, context.target.query());
    if let (Some(page), Caller::Owner) = (page, &call.caller) {
        let (advisor, now) = (&call.exchange.app.shared.advisor, context.now);
        let (account, fork) = (&context.account, context.fork.as_deref());
        return Err(advisor::answer_owner(advisor, page, account, fork, now)?.into());
    }
    Ok(())
}
