import DBus
import Logging

extension BlueZClient {
    /// Answers the pairing requests of all devices of an adapter while `body` runs. A peripheral needs this method, because a central
    /// starts the pairing. The `pairing` parameter of ``withConnection(_:pairing:_:)`` has precedence for its device.
    ///
    /// If a device starts a pairing, bluetoothd sends the requests of this pairing only to the default agent of the machine. The
    /// default agent belongs to the program that was the last one to call this method, or `withConnection` with a responder. After a
    /// restart of bluetoothd, the agent is registered again.
    ///
    /// - Parameter adapter: the name of the adapter, such as `hci1`; nil for the first powered adapter.
    ///
    /// - Throws: the errors of `body`; ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/noSuchAdapter``,
    ///   ``BlueZError/Code/adapterOff``, and the errors of the registration.
    public nonisolated func withPairing<Result>(
        over adapter: String? = nil, _ responder: PairingResponder, _ body: () async throws -> Result
    ) async throws -> Result {
        let adapter = try await usableAdapter(adapter).path
        let registration = try await register(responder, for: adapter)
        let keeper = Task { await keep(registration, responder, for: adapter) }
        do {
            let result = try await body()
            await end(keeper)
            return result
        } catch {
            await end(keeper)
            throw error
        }
    }

    private struct PairingRegistration {
        var agent: PairingAgent
        var ticket: Int
        /// The value of `tree.generation` at the registration.
        var generation: Int

        func remove() async { await agent.remove(ticket) }
    }

    private func register(
        _ responder: PairingResponder, for adapter: DBusObjectPath
    ) async throws(BlueZError) -> PairingRegistration {
        let generation = tree.generation
        let agent = pairingAgent()
        let (ticket, outcome) = await agent.add(responder, for: adapter)
        let registration = PairingRegistration(agent: agent, ticket: ticket, generation: generation)
        do throws(BlueZError) { try outcome.get() } catch {
            await registration.remove()
            throw error
        }
        return registration
    }

    /// Registers the responder again after each restart of bluetoothd. Returns the last registration when the task is cancelled.
    private func keep(
        _ registration: PairingRegistration, _ responder: PairingResponder, for adapter: DBusObjectPath
    ) async -> PairingRegistration {
        var registration = registration
        for await _ in changes() where tree.generation != registration.generation && tree.adapters[adapter] != nil {
            await registration.remove()
            do throws(BlueZError) { registration = try await register(responder, for: adapter) } catch {
                logger.warning("the pairing agent was not registered", metadata: ["reason": "\(error)"])
            }
        }
        return registration
    }

    private nonisolated func end(_ keeper: Task<PairingRegistration, Never>) async {
        keeper.cancel()
        await keeper.value.remove()
    }
}
