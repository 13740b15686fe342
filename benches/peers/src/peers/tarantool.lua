-- Runs the phases of the comparison inside tarantool, in fibers and without a network.
--
--     tarantool tarantool.lua DIRECTORY WAL_MODE MODULE
--
-- Each line of standard input is a request in JSON; the answer is a line of JSON. The process ends at the
-- end of its standard input, so that it does not outlive the process that started it.

local clock = require('clock')
local ffi = require('ffi')
local fiber = require('fiber')
local fio = require('fio')
local json = require('json')

local directory, wal_mode, module = arg[1], arg[2], arg[3]
package.path = module .. '/?.lua;' .. module .. '/?/init.lua;' .. package.path

-- A task that is not delivered within this time, in seconds, is lost.
local TASK_TIMEOUT = 10
-- Maximum number of faults that are described.
local EXAMPLES_MAX = 5

box.cfg {
    wal_dir = directory,
    memtx_dir = directory,
    wal_mode = wal_mode,
    memtx_memory = 4 * 1024 * 1024 * 1024,
    log = directory .. '/tarantool.log',
}
local queue = require('queue')
local tube = queue.create_tube('bench', 'fifo', { if_not_exists = true })
-- 2.6 may open its last log without O_SYNC and append to it. After a snapshot it starts a new log.
box.snapshot()

-- Bodies -----------------------------------------------------------------------------------------------

-- A body is its serial number in hexadecimal, then letters that depend on it, pseudo-random so that the
-- compression of the log finds no pattern. A taken body is compared as a whole, and must be the first with
-- its number.
local bodies = { put = 0, intact = 0, taken = ffi.new('uint8_t[?]', 1024), capacity = 1024, faults = {} }

function bodies.shape(size)
    local state, letters = 12345, {}
    for i = 1, size + 4096 do
        state = (state * 1103515245 + 12345) % 2147483648
        letters[i] = string.char(97 + math.floor(state / 65536) % 26)
    end
    bodies.letters, bodies.size = table.concat(letters), size
end

local function letters_of(serial)
    local start = serial * 7919 % 4096
    return bodies.letters:sub(start + 1, start + bodies.size - 16)
end

function bodies.fresh()
    local serial = bodies.put
    bodies.put = serial + 1
    return ('%016x'):format(serial) .. letters_of(serial)
end

function bodies.fault(what)
    if #bodies.faults < EXAMPLES_MAX then
        table.insert(bodies.faults, what)
    end
end

function bodies.check(body)
    local serial = tonumber(body:sub(1, 16), 16)
    if serial == nil or serial >= bodies.put or body:sub(17) ~= letters_of(serial) then
        return bodies.fault(('a wrong body of %d bytes, "%s"'):format(#body, body:sub(1, 32)))
    end
    if serial >= bodies.capacity then
        local capacity = math.max(serial + 1, bodies.capacity * 2)
        local taken = ffi.new('uint8_t[?]', capacity)
        ffi.copy(taken, bodies.taken, bodies.capacity)
        bodies.taken, bodies.capacity = taken, capacity
    end
    if bodies.taken[serial] ~= 0 then
        return bodies.fault(('body %d was delivered twice'):format(serial))
    end
    bodies.taken[serial] = 1
    bodies.intact = bodies.intact + 1
end

-- Work -------------------------------------------------------------------------------------------------

local work = {}

work['put'] = function()
    tube:put(bodies.fresh())
    return true
end

work['take-ack'] = function()
    local task = tube:take(0)
    if task == nil then
        return false
    end
    bodies.check(task[3])
    tube:ack(task[1])
    return true
end

work['cycle'] = function()
    tube:put(bodies.fresh())
    local task = tube:take(TASK_TIMEOUT)
    if task == nil then
        error('no task could be taken after a put')
    end
    bodies.check(task[3])
    tube:ack(task[1])
    return true
end

local function joined(fibers)
    for _, each in ipairs(fibers) do
        local ok, problem = each:join()
        if not ok then
            error(problem)
        end
    end
end

local function spawned(run)
    local each = fiber.new(run)
    each:set_joinable(true)
    return each
end

local function run(request)
    local step, tasks = work[request.work], 0
    local start = clock.monotonic()
    local fibers = {}
    for i = 1, request.callers do
        fibers[i] = spawned(function()
            while clock.monotonic() - start < request.seconds do
                if not step() then
                    return
                end
                tasks = tasks + 1
            end
        end)
    end
    joined(fibers)
    return { tasks = tasks, seconds = clock.monotonic() - start }
end

-- Puts each task a while after the ack of the previous one.
local function wake_up(request)
    local received, nanos = fiber.channel(1), {}
    local consumer = spawned(function()
        for _ = 1, request.tasks do
            local task = tube:take(TASK_TIMEOUT)
            local now = clock.monotonic()
            if task == nil then
                error('a task was not delivered')
            end
            bodies.check(task[3])
            tube:ack(task[1])
            received:put(now)
        end
    end)
    for i = 1, request.tasks do
        fiber.sleep(request.seconds * (0.5 + i * 7919 % 101 / 100))
        tube:put(bodies.fresh())
        local returned = clock.monotonic()
        nanos[i] = math.floor((received:get(2 * TASK_TIMEOUT) - returned) * 1e9)
    end
    joined({ consumer })
    return { nanos = nanos }
end

-- Requests ---------------------------------------------------------------------------------------------

local function answered(line)
    local request = json.decode(line)
    if bodies.size ~= request.body then
        bodies.shape(request.body)
    end
    local put, intact = bodies.put, bodies.intact
    local answer = request.work == 'wake-up' and wake_up(request) or run(request)
    answer.put, answer.taken = bodies.put - put, bodies.intact - intact
    answer.faults, bodies.faults = setmetatable(bodies.faults, { __serialize = 'seq' }), {}
    return answer
end

local function send(answer)
    io.stdout:write(json.encode(answer), '\n')
    io.stdout:flush()
end

send({ ready = true })
local input, unread = fio.open('/dev/stdin', { 'O_RDONLY' }), ''
local requests = fiber.channel(16)
fiber.create(function()
    while true do
        local ok, answer = pcall(answered, requests:get())
        send(ok and answer or { error = tostring(answer) })
    end
end)
while true do
    local read = input:read(4096)
    if read == nil or read == '' then
        os.exit(0)
    end
    unread = unread .. read
    for line in unread:gmatch('([^\n]*)\n') do
        requests:put(line)
    end
    unread = unread:match('[^\n]*$')
end
