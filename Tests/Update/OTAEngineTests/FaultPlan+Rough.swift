import OTASimulator

extension FaultPlan {
    /// Gaps, lost notifications, three lost links and a device reset.
    static var rough: FaultPlan {
        var faults = FaultPlan()
        faults.gap = 0.05
        faults.notificationLoss = 0.05
        faults.dropAt = [0.1, 0.5, 0.9]
        faults.resetAt = [0.6]
        return faults
    }
}
