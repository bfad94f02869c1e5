import Gauntlet
import OTAEngine
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate
import Synchronization
import Testing

/// The table of transitions in docs/architecture.md, "The session".
@Suite("Stages of an update") struct UpdateStageTests {
    /// A session whose progress reports are removed.
    private struct Mute: UpdateLogic {
        var session: UpdateSession

        var deadline: Duration? { session.deadline }

        mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
            session.handle(event, at: now).filter { if case .report = $0 { false } else { true } }
        }
    }

    /// Runs a session that reports no progress.
    ///
    /// - Parameter end: the first stage that is not permitted; nil: each stage is permitted.
    /// - Returns: the stages that the session entered.
    private func stages<Kind>(
        of task: Kind.Task, in world: World<Kind>, until end: UpdateStage? = nil
    ) throws -> (stages: [UpdateStage], error: UpdateError.Code?) {
        let session = Mute(session: try Kind.session(task, seed: 1))
        let (time, transport) = (world.time, world.transport)
        let entered = Mutex<[UpdateStage]>([])
        let error: UpdateError.Code? = try time.run {
            let runner = UpdateRunner(
                clock: time,
                gate: { stage, error in
                    // The device may still restart after the previous task.
                    if error == nil { entered.withLock { $0.append(stage) } }
                    return end.map { stage < $0 } ?? true
                })
            do throws(UpdateError) {
                _ = try await runner.run(session, over: transport, interrupts: AsyncStream<Void> { $0.finish() })
                return nil
            } catch {
                return error.code
            }
        }
        return (entered.withLock { $0 }, error)
    }

    @Test("each task over the OTA profile enters its stages in order, without any progress report")
    func profile() throws {
        let world = try World(try ExampleRelease(bytes: 5000))
        let bundle = world.release.bundle
        let tasks: [(UpdateTask<VerifiedBundle>, [UpdateStage])] = [
            (.status, [.asking]),
            (.push(bundle, UpdateOptions(isDryRun: true)), [.asking]),
            (.push(bundle, UpdateOptions(ending: .trial)), [.asking, .sending, .marked, .restarting]),
            (.push(bundle, UpdateOptions()), [.asking, .confirming]),
            (.push(bundle, UpdateOptions()), [.asking]),
        ]
        for (task, expected) in tasks {
            let run = try stages(of: task, in: world)
            #expect(run.stages == expected && run.error == nil, "\(task)")
        }
        #expect(world.runsNewImage)

        let other = try World(try ExampleRelease(bytes: 5000))
        let push = UpdateTask.push(other.release.bundle, UpdateOptions())
        #expect(try stages(of: push, in: other).stages == [.asking, .sending, .marked, .restarting, .confirming])
        let third = try World(try ExampleRelease(bytes: 5000))
        _ = try third.push(UpdateOptions(ending: .trial))
        #expect(try stages(of: .discard(), in: third).stages == [.asking, .sending, .restarting])
        #expect(third.runsOldImage)
    }

    @Test("each task over SMP enters its stages in order, without any progress report")
    func smp() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let tasks: [(UpdateTask<[SMPImage]>, [UpdateStage])] = [
            (.status, [.asking]),
            (.restart, [.asking, .restarting]),
            (world.push(UpdateOptions(ending: .uploadOnly)), [.asking, .sending]),
            (.discard(erasesImage: true), [.asking, .sending]),
            (world.push(UpdateOptions(ending: .trial)), [.asking, .sending, .marked, .restarting]),
            (.discard(), [.asking, .restarting]),
            (world.push(UpdateOptions(ending: .trial)), [.asking, .marked, .restarting]),
            (.confirm, [.asking, .confirming]),
            (world.push, [.asking]),
        ]
        for (task, expected) in tasks {
            let run = try stages(of: task, in: world)
            #expect(run.stages == expected && run.error == nil, "\(task)")
        }
        #expect(world.runsNewImage)
    }

    @Test("without permission for the stage sending, a device gets no byte of the image and no request that changes it")
    func refused() throws {
        let profile = try World(try ExampleRelease(bytes: 5000))
        let push = try stages(of: .push(profile.release.bundle, UpdateOptions()), in: profile, until: .sending)
        #expect(push.stages == [.asking, .sending] && push.error == .interrupted)
        #expect(profile.runsOldImage && profile.device.recordedImage == nil)
        _ = try profile.push(UpdateOptions(ending: .trial))
        for task in [UpdateTask<VerifiedBundle>.confirm, .discard()] {
            #expect(try stages(of: task, in: profile, until: .sending).error == .interrupted)
            #expect(profile.device.bootState?.trial != BootState.Trial.none, "the image is still on trial")
        }

        let smp = try World(try SMPRelease(bytes: 5000))
        for task in [smp.push, smp.push(UpdateOptions(resume: .never)), .restart] {
            #expect(try stages(of: task, in: smp, until: .sending).error == .interrupted)
            #expect(smp.runsOldImage && smp.device.heldImage == nil && smp.device.restartCount == 0)
        }
        _ = try smp.run(UpdateOptions(ending: .uploadOnly))
        for task in [smp.push, .discard(erasesImage: true)] {
            #expect(try stages(of: task, in: smp, until: .sending).error == .interrupted)
            #expect(smp.runsOldImage && smp.device.heldImage != nil)
        }
    }
}
