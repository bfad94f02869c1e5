internal import DescriptorIO
internal import OTAFirmware
public import OTAFleet
public import OTASigning
public import OTAStore

/// The controller of a fleet: counts the results, starts the next stage of each rollout, halts a rollout whose devices fail, and signs the
/// progress. Several controllers can run; one of them leads.
///
/// The controller handles only the rollouts that name its key.
public struct Controller<C: Clock>: Sendable where C.Duration == Duration {
    let signer: any Signer
    let instance: GatewayInstance
    let earlierInstances: Set<GatewayInstance>
    let operators: OperatorKeys
    let memory: SerialMemory
    let store: any FleetStore
    let clock: C
    let wall: @Sendable () -> Timestamp?
    let save: @Sendable (SerialMemory) async throws -> Void
    let report: @Sendable (ControllerNote) -> Void

    /// - Parameters:
    ///   - signer: the key that signs the progress. The key can be outside this process, so a signature can take time.
    ///   - instance: the identifier of this run of the process.
    ///   - earlierInstances: the identifiers of the earlier runs of the process with the same state folder. If one of them led, this run
    /// leads at
    ///     once.
    ///   - operators: the keys that verify rollouts.
    ///   - memory: the highest accepted serial numbers, read from the disk.
    ///   - clock: a monotonic clock that also counts the time in which the machine sleeps, such as `ContinuousClock`.
    ///   - wall: returns the time of the wall clock; nil if the clock is not set.
    ///   - save: writes the accepted serial numbers to the disk. Until `save` returns, the controller writes no progress.
    ///   - report: receives messages for the user.
    public init(
        signer: any Signer, instance: GatewayInstance, earlierInstances: Set<GatewayInstance> = [],
        operators: OperatorKeys,
        memory: SerialMemory, store: any FleetStore, clock: C, wall: @escaping @Sendable () -> Timestamp?,
        save: @escaping @Sendable (SerialMemory) async throws -> Void,
        report: @escaping @Sendable (ControllerNote) -> Void = { _ in }
    ) {
        self.signer = signer
        self.instance = instance
        self.earlierInstances = earlierInstances
        self.operators = operators
        self.memory = memory
        self.store = store
        self.clock = clock
        self.wall = wall
        self.save = save
        self.report = report
    }

    /// Runs the controller until the task is cancelled. A controller can stop at any time: another one takes over after 45 s.
    public func run() async {
        await withDiscardingTaskGroup { group in
            let mailbox = Mailbox(clock, wake: ControllerMessage.woken)
            let post = mailbox.post
            let watch = StoreWatch(store: store, clock: clock)
            for bucket in [Bucket.rollouts, .progress] {
                group.addTask { await watch.run(bucket) { post.yield(.store($0)) } }
            }
            var loop = ControllerLoop(self, mailbox)
            await loop.run(in: &group)
            group.cancelAll()
        }
    }
}

/// A message of a controller to the user.
public enum ControllerNote: Sendable {
    /// This controller leads from now on, or does not lead any more.
    case leads(Bool)
    /// The devices of a rollout in each state. A controller that leads counts them every 2 s.
    case counted(RolloutName, RolloutProgress.Counts, notEnrolled: RolloutProgress.Counts)
    /// The store has acknowledged this progress.
    case wrote(RolloutProgress)
    /// A signed record or a device's record was not accepted, or the key did not sign.
    case refused(FleetError)
    /// The store does not answer, or refuses a write. The controller tries again.
    case storeFailed(StoreError)
    /// The accepted serial numbers (`SerialMemory`) could not be written to the disk. The controller tries again. Until they are on the
    /// disk, it writes no progress.
    case notSaved(String)
}

/// A message to the loop of a controller.
enum ControllerMessage: Sendable {
    case store(WatchMessage)
    case woken
    case readLeader(Result<StoredRecord?, StoreError>)
    case wroteLeader(DeviceMachine.WriteResult, StoreError?)
    case wrote(RolloutProgress, SignedRecord, WriteOutcome)
    case notWritten(RolloutName, any Error)
    case readProgress(RolloutName, Result<StoredRecord?, StoreError>)
    case enrolment(SHA256Digest, Result<EnrolledDevices, any Error>)
    case saved((any Error)?)
}
