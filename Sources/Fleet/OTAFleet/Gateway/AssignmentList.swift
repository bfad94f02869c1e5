public import OTAFirmware

/// A job for a device: a verified rollout, and the verified release of this rollout. Only ``AssignmentList`` creates a value of this type,
/// after it has checked that the push may start.
public struct Assignment: Sendable, Hashable {
    public let rollout: Verified<Rollout>
    public let release: Verified<FleetRelease>
    /// True if the push may only confirm the image of a device on trial, and must not make the device boot the image again. Examples: the
    /// rollout is paused, halted, aborted or expired. If the device is not on trial any more, the push must end with `not-in-trial`.
    public let onlyConfirms: Bool
    /// The signed part of the device's last job.
    let last: SignedJob

    fileprivate init(
        rollout: Verified<Rollout>, release: Verified<FleetRelease>, onlyConfirms: Bool = false, last: SignedJob
    ) {
        self.rollout = rollout
        self.release = release
        self.onlyConfirms = onlyConfirms
        self.last = last
    }
}

/// The end of the push of a ``Assignment``.
public enum PushEnd: Sendable, Hashable {
    /// The device runs the image, and the image is confirmed. The device may have run it before the push.
    case updated
    /// The push ended without a result, for example because of `link-lost` or `device-busy`. Another attempt can succeed.
    case retry(Reason)
    /// The device or otaflash refused the image. Another attempt would have the same end.
    case refused(Reason)
    /// The push failed, and the image may be the cause. Examples are `rolled-back`, `did-not-return`, and a failure of the device.
    case failed(Reason)
}

/// The rollouts that a gateway knows, with their releases and their progress.
///
/// The caller passes the bytes of each record that it receives. The list verifies the record. It refuses a record that is older than the
/// accepted version of the same record.
public struct AssignmentList: Sendable {
    private struct Entry: Sendable {
        var rollout: Verified<Rollout>
        var progress: Verified<RolloutProgress>?
        /// The time at which this gateway received the current progress for the first time; nil if it has received no progress.
        var seen: Duration?
        /// False while the store contains no accepted record under the name of the rollout.
        var isCurrent = true
    }

    private let operators: OperatorKeys
    private var entries: [RolloutName: Entry] = [:]
    /// The rollouts in the store without an accepted version.
    private var refused: Set<RolloutName> = []
    private var releases: [ReleaseID: Verified<FleetRelease>] = [:]
    /// The lists of enrolled devices that were read.
    private var lists: [SHA256Digest: EnrolledDevices] = [:]
    private var badReleases: Set<Verified<FleetRelease>> = []
    /// The releases whose record in the store was not accepted. This record may have replaced a withdrawal.
    private var replacedReleases: Set<ReleaseID> = []
    /// The last accepted bytes of each record, so that a repeated record is not verified again.
    private var accepted: [String: [UInt8]] = [:]
    /// The highest accepted serial numbers. If an `add` method returns true, write this value to the disk before the next push starts.
    public private(set) var memory: SerialMemory

    public init(operators: OperatorKeys, memory: SerialMemory) {
        self.operators = operators
        self.memory = memory
    }

    public var rollouts: [Verified<Rollout>] { entries.values.map(\.rollout).sorted { $0.value.name < $1.value.name } }

    /// The accepted progress of a rollout; nil if no progress was accepted.
    public func progress(of rollout: RolloutName) -> Verified<RolloutProgress>? { entries[rollout]?.progress }

    // MARK: - Records

    /// Adds a rollout, or a newer version of it.
    ///
    /// - Parameter name: the name of the record in the store.
    /// - Returns: whether `memory` changed.
    /// - Throws: `record-untrusted`, `rollback-seen`; `record-malformed`, `record-too-large`, `too-new`. After
    ///   `rollback-seen`, the accepted version of the rollout stays in force. After another error, it starts no push until the store has
    ///   an accepted version again, except to confirm an image on trial: another program may have overwritten an abort.
    public mutating func add(rollout bytes: [UInt8], named name: RolloutName) throws(FleetError) -> Bool {
        do throws(FleetError) {
            let changes = try addCurrent(rollout: bytes, named: name)
            refused.remove(name)
            return changes
        } catch {
            if entries[name] == nil { refused.insert(name) }
            // A record that is older than the accepted version changes nothing: the accepted version is the newest of the operator.
            if error.code != .rollbackSeen { entries[name]?.isCurrent = false }
            throw error
        }
    }

    private mutating func addCurrent(rollout bytes: [UInt8], named name: RolloutName) throws(FleetError) -> Bool {
        let key = "rollout \(name)"
        guard accepted[key] != bytes else {
            entries[name]?.isCurrent = true
            return false
        }
        let rollout = try operators.rollout(bytes)
        guard rollout.value.name == name else { throw Self.misplaced("rollout", rollout.value.name.text, name.text) }
        let changes = try memory.accept(rollout)
        accepted[key] = bytes
        // The new version could name other controllers, so the progress is verified again with the keys in this version.
        let progress = accepted.removeValue(forKey: "progress \(name)")
        let seen = entries[name]?.seen
        entries[name] = Entry(rollout: rollout)
        if let progress, let seen { _ = try? add(progress: progress, of: name, seen: seen) }
        return changes
    }

    /// Starts no push of the rollouts that a complete list of the store does not contain, except to confirm an image on trial. The store
    /// can have lost them, and with them a later change of an operator. A lost rollout starts pushes again after ``add(rollout:named:)``.
    ///
    /// - Parameter names: the names of all records of rollouts in the store.
    public mutating func suspend(except names: Set<RolloutName>) {
        for name in entries.keys where !names.contains(name) { entries[name]?.isCurrent = false }
        refused.formIntersection(names)
    }

    /// Returns whether the store contains an accepted record of the rollout.
    public func isCurrent(_ rollout: RolloutName) -> Bool { entries[rollout]?.isCurrent ?? false }

    /// Adds a release, or a newer version of it. The result, the errors and their consequences are those of `add(rollout:named:)`.
    public mutating func add(release bytes: [UInt8], named id: ReleaseID) throws(FleetError) -> Bool {
        do throws(FleetError) {
            let changes = try addCurrent(release: bytes, named: id)
            replacedReleases.remove(id)
            return changes
        } catch {
            if error.code != .rollbackSeen, releases[id] != nil { replacedReleases.insert(id) }
            throw error
        }
    }

    private mutating func addCurrent(release bytes: [UInt8], named id: ReleaseID) throws(FleetError) -> Bool {
        let key = "release \(id)"
        guard accepted[key] != bytes else { return false }
        let release = try operators.release(bytes)
        guard release.value.id == id else { throw Self.misplaced("release", release.value.id.text, id.text) }
        let changes = try memory.accept(release)
        accepted[key] = bytes
        releases[id] = release
        return changes
    }

    /// Adds the progress of a rollout. The progress of an unknown rollout is ignored, because only the rollout names its controllers.
    ///
    /// The result and the errors are those of `add(rollout:named:)`.
    public mutating func add(
        progress bytes: [UInt8], of name: RolloutName, at moment: Moment
    ) throws(FleetError) -> Bool { try add(progress: bytes, of: name, seen: moment.now) }

    private mutating func add(progress bytes: [UInt8], of name: RolloutName, seen: Duration) throws(FleetError) -> Bool
    {
        let key = "progress \(name)"
        guard let entry = entries[name], accepted[key] != bytes else { return false }
        let progress: Verified<RolloutProgress>
        do throws(FleetError) { progress = try OperatorKeys.progress(bytes, of: entry.rollout) } catch {
            // An aborted rollout needs no progress. If the abort replaced a damaged record, it does not name the earlier controllers.
            if entry.rollout.value.state == .aborted, error.code == .untrusted { return false }
            throw error
        }
        let changes = try memory.accept(progress)
        accepted[key] = bytes
        entries[name]?.progress = progress
        entries[name]?.seen = seen
        return changes
    }

    /// The lists of enrolled devices that the rollouts name and that were not read. An aborted rollout needs no list.
    public var missingLists: Set<SHA256Digest> {
        Set(
            entries.values.filter { $0.rollout.value.state != .aborted }.compactMap(\.rollout.value.enrolment.list)
                .filter { lists[$0] == nil })
    }

    /// Adds a list of enrolled devices.
    ///
    /// - Parameter digest: the SHA-256 of the list. The caller has compared it with the bytes of the list.
    public mutating func add(_ list: EnrolledDevices, digest: SHA256Digest) { lists[digest] = list }

    /// Returns the enrolled devices of a rollout; nil if its list was not read.
    public func enrolled(by rollout: Rollout) -> EnrolledDevices? {
        rollout.enrolment.list.map { lists[$0] } ?? EnrolledDevices.none
    }

    /// Returns whether the device is enrolled in a rollout. Without the list of the rollout, it is not.
    public func isEnrolled(_ device: DeviceID, in rollout: RolloutName) -> Bool {
        guard let rollout = entries[rollout]?.rollout.value else { return false }
        return rollout.isEnrolled(device, in: enrolled(by: rollout) ?? .none)
    }

    /// Excludes this version of a release from all further pushes of this process. Call this method if the gateway has refused the bundle
    /// of the release.
    public mutating func refuse(_ release: Verified<FleetRelease>) { badReleases.insert(release) }

    private static func misplaced(_ what: String, _ name: String, _ place: String) -> FleetError {
        FleetError(.untrusted, "the record of the \(what) \(name) is stored as \(place)")
    }

    // MARK: - Decisions

    /// If a gateway has received no new progress of a rollout for this time, it starts no push of this rollout. The controller writes the
    /// progress at least every 60 s.
    private static let deadManTime = Duration.seconds(600)

    /// Returns the job for a device, from the newest rollout that admits the device; nil if no push may start.
    ///
    /// If the device may be on trial, the job is always from the rollout that started the trial, because the image on trial must be
    /// confirmed. If the state, the expiry or the progress of this rollout permits no push, or the clock is not set, the push may only
    /// confirm the image (``Assignment/onlyConfirms``).
    ///
    /// - Parameters:
    ///   - record: the record of the device, with the product and version that the gateway last read from the device. Its job counts only
    /// as
    ///     far as an operator has signed it (``SignedJob``).
    ///   - heard: the version that the gateway last read from the device; nil: not read.
    ///   - refusals: called with the reason if the clock or the expiry prevents a push.
    public func assignment(
        for record: DeviceRecord, heard: SemanticVersion? = nil, at moment: Moment,
        refusals: (FleetError) -> Void = { _ in }
    ) -> Assignment? {
        let last = job(of: record, at: moment.wall)
        let record = record.bounded(by: last, heard: heard ?? record.version)
        if record.isOnTrial, let own = record.rollout.flatMap({ entries[$0] }), let release = release(for: own.rollout)
        {
            return newestAssignment(of: [own], for: record, last, at: moment) { _ in }
                ?? Assignment(rollout: own.rollout, release: release, onlyConfirms: true, last: last)
        }
        let newestFirst = entries.values.sorted {
            ($0.rollout.value.created, $0.rollout.value.name) > ($1.rollout.value.created, $1.rollout.value.name)
        }
        return newestAssignment(of: newestFirst, for: record, last, at: moment, refusals: refusals)
    }

    /// Returns the part of the job in a device's record that an operator has signed.
    ///
    /// - Parameter wall: the time of the wall clock; nil if the clock is not set.
    public func job(of record: DeviceRecord, at wall: Timestamp?) -> SignedJob {
        guard let name = record.rollout else { return .unchecked }
        if let rollout = entries[name]?.rollout {
            guard record.product == rollout.value.selection.product else { return .unsigned }
            // An abort that replaces a lost rollout is later than the lost rollout, and must not exclude the rollouts between them.
            let (created, recorded) = (rollout.value.created, record.rolloutCreated ?? rollout.value.created)
            return .signed(
                created: rollout.value.replacesLostRollout ? min(created, recorded) : created,
                version: release(for: rollout)?.value.version)
        }
        // Gateways with different operators would otherwise update the device in turn, to the rollouts of their operators.
        let now = wall?.advanced(by: Rollout.clockTolerance)
        // The store may have lost a rollout that this machine has accepted. Its devices must not return to older rollouts.
        guard refused.contains(name) || memory.hasAccepted(name), let created = record.rolloutCreated,
            now.map({ created <= $0 }) ?? true
        else {
            return .unsigned
        }
        return .unchecked
    }

    private func newestAssignment(
        of newestFirst: [Entry], for record: DeviceRecord, _ last: SignedJob, at moment: Moment,
        refusals: (FleetError) -> Void
    ) -> Assignment? {
        for entry in newestFirst {
            let rollout = entry.rollout.value
            guard let release = release(for: entry.rollout) else { continue }
            let isOwn = record.rollout == rollout.name && (record.state == .running || record.state == .waiting)
            guard entry.isCurrent, rollout.state == .running, release.value.state == .published,
                !badReleases.contains(release), !replacedReleases.contains(release.value.id),
                // A device that has a job of this rollout may already run the version of the release, for example after a trial. So the
                // condition for the running version does not apply to this device.
                rollout.selection.includes(
                    product: record.product, version: record.version, groups: record.groups,
                    ignoringVersion: isOwn),
                isOwn || record.mayFollow(rollout.name, rollout.created),
                admits(record, entry, at: moment)
            else { continue }
            guard let wall = moment.wall else {
                refusals(FleetError(.clockNotSet, "the clock of this machine is not set"))
                return nil
            }
            do throws(FleetError) { try rollout.check(wall: wall) } catch {
                refusals(error)
                continue
            }
            return Assignment(rollout: entry.rollout, release: release, last: last)
        }
        return nil
    }

    /// Returns the job of a device whose lease was taken for `assignment`, as it may start now; nil if no push may start any more. The
    /// write of the lease can last for seconds, in which an operator or the controller stops the rollout. A device that may be on trial
    /// gets a push that only confirms.
    public func renewed(_ assignment: Assignment, for record: DeviceRecord, at moment: Moment) -> Assignment? {
        guard let own = entries[assignment.rollout.value.name] else { return nil }
        let newest = newestAssignment(of: [own], for: record, assignment.last, at: moment) { _ in }
        if let newest, newest.release == assignment.release { return newest }
        return record.isOnTrial
            ? Assignment(rollout: own.rollout, release: assignment.release, onlyConfirms: true, last: assignment.last)
            : nil
    }

    /// Returns true if the push to the device must be interrupted: the operator has aborted its rollout, and the device cannot be on trial.
    ///
    /// - Parameter isOnTrial: `DeviceMachine.isOnTrial`. The record can still be that of the earlier attempt's trial.
    public func mustInterrupt(_ record: DeviceRecord, isOnTrial: Bool) -> Bool {
        record.state == .running && !isOnTrial && isAborted(record)
    }

    /// Returns true if the operator has aborted the rollout of the record.
    public func isAborted(_ record: DeviceRecord) -> Bool {
        record.rollout.flatMap { entries[$0] }?.rollout.value.state == .aborted
    }

    private func release(for rollout: Verified<Rollout>) -> Verified<FleetRelease>? {
        guard let release = releases[rollout.value.release],
            release.value.manifestDigest == rollout.value.manifestDigest,
            release.value.product == rollout.value.selection.product
        else { return nil }
        return release
    }

    private func admits(_ record: DeviceRecord, _ entry: Entry, at moment: Moment) -> Bool {
        guard let progress = entry.progress?.value, let seen = entry.seen, progress.state != .halted,
            moment.now - seen < Self.deadManTime,
            // If the progress names a newer version of the rollout, this gateway waits for the newer version, because that version could
            // pause the rollout.
            progress.rolloutSerial <= entry.rollout.value.serial
        else { return false }
        // Until the list was read, its devices get the rollout in the last stage, like the devices that are not enrolled.
        let rollout = entry.rollout.value
        return rollout.admits(
            record.device, groups: record.groups, in: enrolled(by: rollout) ?? .none, upTo: progress.stage)
    }
}
