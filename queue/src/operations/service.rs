//! Operations on the service as a whole.

use crate::model::*;
use crate::{QueueService, Result, check, keys};
use lazurite_engine::{Batch, Ticket};

impl QueueService {
    /// The account's properties; defaults if never set. Source: Get Queue Service Properties.
    pub fn get_queue_service_properties(&self, account: &str) -> Result<ServiceProperties> {
        let value = self.db.get(&self.queues, &keys::properties(account))?;
        let properties = value.map(|value| ServiceProperties::decode(&value));
        Ok(properties.transpose()?.unwrap_or_default())
    }

    /// Changes the parts that are given. Retention out of range is `InvalidXmlNodeValue`, too many or too long CORS rules
    /// `InvalidXmlDocument`. Source: Set Queue Service Properties.
    pub fn set_queue_service_properties(
        &self,
        account: &str,
        change: ServicePropertiesChange,
    ) -> Result<Ticket> {
        let key = keys::properties(account);
        let _guard = self.property_locks.lock(&key);
        let old = self.get_queue_service_properties(account)?;
        let new = ServiceProperties {
            logging: change.logging.unwrap_or(old.logging),
            hour_metrics: change.hour_metrics.unwrap_or(old.hour_metrics),
            minute_metrics: change.minute_metrics.unwrap_or(old.minute_metrics),
            cors: change.cors.unwrap_or(old.cors),
        };
        check::service_properties(&new)?;
        let mut batch = Batch::new();
        batch.put(&self.queues, &key, &new.encode());
        Ok(self.db.write(batch)?)
    }
}
